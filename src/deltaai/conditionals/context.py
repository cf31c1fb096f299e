"""What is given with a column, such as an image, as every conditional sees it.

A context network turns what is given into features, once for a column. What a family makes of these
does not depend on states, so it is computed once, too, and is shared by a state and its flips, by
all steps of sampling, and by all samples that are drawn for the same column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Context:
    """What a family of conditionals made of the features of each column.

    Parameters
    ----------
    terms : for each block of the layout, some numbers a variable and column; or one entry, with one
        variable, where all conditionals share theirs.
    each : how many columns in a row share the same context, whose terms stand here once.
    """

    terms: tuple[Float[Tensor, "_variable _term given"], ...]
    each: int = 1

    def of_block(self, block: int) -> Float[Tensor, "_variable term batch"]:
        """The terms of a block's variables, for every column; of one, if all share theirs."""
        terms = self.terms[block if len(self.terms) > 1 else 0]
        return terms if self.each == 1 else terms.repeat_interleave(self.each, dim=-1)

    def of_pairs(
        self, block: int, members: Int[Tensor, "pair"], dags: Int[Tensor, "pair"], num_dags: int
    ) -> Float[Tensor, "pair term sample"]:
        """The terms of some members of a block, each in the columns of one order."""
        terms = self.of_block(block)
        chosen = members if len(terms) > 1 else members.new_zeros(len(members))
        if num_dags == 1:
            return terms.index_select(0, chosen)
        cut = terms.view(*terms.shape[:2], num_dags, -1)
        return cut[chosen, :, dags]

    def to(self, dtype: torch.dtype) -> Context:
        """The same context in another precision."""
        return Context(tuple(terms.to(dtype) for terms in self.terms), self.each)

    def repeated(self, times: int) -> Context:
        """The same context for several columns in a row."""
        return Context(self.terms, self.each * times)
