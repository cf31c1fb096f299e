"""The conditionals of p that some latents enter: what a local change or a local update needs.

A change of the latent u concerns its own conditional, those of its children, and those of the
observed variables below it; their parents are u and its neighbours in the chordal graph, so nothing
else need be there. An *item* is one latent in columns of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Conditionals

Columns = Int[Tensor, "var item sample"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Variables of one block that a latent enters, each with the item of that latent.

    Parameters
    ----------
    block, members : the block, and places in it.
    variables, items : the variables, and which item each is looked at in.
    """

    block: int
    members: Int[Tensor, "pair"]
    variables: Int[Tensor, "pair"]
    items: Int[Tensor, "pair"]


class TermsAround:
    """Conditionals that latents enter, one item a latent.

    Parameters
    ----------
    conditionals : one part of p.
    latents : the latent of each item.
    """

    def __init__(self, conditionals: Conditionals, latents: Sequence[int]) -> None:
        self.conditionals = conditionals
        self.latents = torch.tensor(
            list(latents), dtype=torch.long, device=conditionals.layout.device
        )
        own: list[Pairs] = []
        below: list[Pairs] = []
        for number, block in enumerate(conditionals.layout.blocks):
            if block.num_logits == 0:
                continue
            is_own = block.variables[:, None] == self.latents
            is_below = (block.inputs[:, :, None] == self.latents).any(1)
            for found, is_here in ((own, is_own), (below, is_below)):
                members, items = is_here.nonzero(as_tuple=True)
                if len(members):
                    found.append(Pairs(number, members, block.variables[members], items))
        self.own, self.below = tuple(own), tuple(below)

    def log_densities(self, pairs: Pairs, columns: Columns) -> Float[Tensor, "pair sample"]:
        """Log p of each pair's variable given its parents, in the columns of its item."""
        layout = self.conditionals.layout
        block, dtype = layout.blocks[pairs.block], next(self.conditionals.parameters()).dtype
        features = layout.encoding.encode(columns.flatten(1), dtype)
        num_items, num_samples = columns.shape[1:]
        rows = block.feature_rows[pairs.members] * num_items + pairs.items[:, None, None]
        by_item = features.view(len(features) * num_items, num_samples)
        inputs = by_item.index_select(0, rows.flatten()).view(*rows.shape, num_samples)
        logits = self.conditionals.logits_at(pairs.block, pairs.members, inputs)
        return block.head.log_density(logits, columns[pairs.variables, pairs.items])

    def log_sums(self, columns: Columns) -> Float[Tensor, "item sample"]:
        """Log p of everything that the latent of each item enters."""
        dtype = next(self.conditionals.parameters()).dtype
        total = torch.zeros(columns.shape[1:], dtype=dtype, device=columns.device)
        for pairs in (*self.own, *self.below):
            total = total.index_add(0, pairs.items, self.log_densities(pairs, columns))
        return total
