"""Knowledge that is exact for some variables, beside another kind for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.knowledge import Inputs, Knowledge
from deltaai.models import Columns, FactorGraph


class SettledKnowledge(Knowledge):
    """One kind of knowledge for the variables that it settles, another for all others.

    Parameters
    ----------
    exact : of the settled ones.
    other : of the rest.
    settled : variables.
    """

    def __init__(self, exact: Knowledge, other: Knowledge, settled: Sequence[int]) -> None:
        self.exact, self.other, self.layout = exact, other, exact.layout
        device = self.layout.device
        is_settled = torch.zeros(self.layout.num_variables, dtype=torch.bool, device=device)
        is_settled[list(settled)] = True
        self._is_settled = is_settled
        rows, flips = [is_settled[:0]], [is_settled[:0]]
        for block in self.layout.blocks:
            own = is_settled[block.variables]
            rows.append(own.repeat_interleave(block.num_logits))
            flips.append(own.repeat_interleave(block.num_flipped * block.num_logits))
        self._rows, self._flips = torch.cat(rows)[:, None], torch.cat(flips)[:, None]

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """What is known of every variable at full states."""
        exact = self.exact.logits(model, columns, known)
        return torch.where(self._rows, exact, self.other.logits(model, columns, known))

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns, known: Known
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""
        exact = self.exact.logits_and_flips(model, columns, others, known)
        other = self.other.logits_and_flips(model, columns, others, known)
        rows = torch.where(self._rows, exact[0], other[0])
        return rows, torch.where(self._flips, exact[1], other[1])

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[Any, Any]:
        """Prepare both."""
        return self.exact.choose(block, members, known), self.other.choose(block, members, known)

    def logits_at(
        self, model: FactorGraph, chosen: tuple[Any, Any], inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"] | None:
        """What is known of chosen members at given inputs."""
        exact = self.exact.logits_at(model, chosen[0], inputs)
        other = self.other.logits_at(model, chosen[1], inputs)
        if exact is None or other is None:
            return exact if other is None else other
        own = self._is_settled[self.layout.blocks[inputs.block].variables[inputs.members]]
        return torch.where(own[:, None, None], exact, other)
