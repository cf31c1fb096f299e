"""Unary and pairwise log-factors as weights on encoded inputs: cheap logits while sampling.

A pairwise factor of v and a known input u adds to v's logits a number for every state of u, and
that is linear in u's features: its values are the weights of a one-hot encoding, and for a spin

    R(s) = (R(+1) + R(-1)) / 2 + s (R(+1) - R(-1)) / 2.

So all of them together are one product with the inputs, in place of several operations a factor.
Factors over more variables stay as they are (:class:`~deltaai.conditionals.informed.FactorTerms`).
Folding takes a moment; who asks keeps the weights as long as the factors do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.informed import FactorTerms, Term
from deltaai.conditionals.layout import Block, Layout
from deltaai.models import FactorGroup


@dataclass(frozen=True, eq=False)
class FoldedBlock:
    """What is added to the logits of a block's variables.

    Parameters
    ----------
    weights : of each feature of each input.
    constants : for each input that is known.
    own : in any case.
    """

    weights: Float[Tensor, "variable logit input_feature"]
    constants: Float[Tensor, "variable logit input"]
    own: Float[Tensor, "variable logit 1"]

    def logits(
        self,
        members: Int[Tensor, "pair"],
        inputs: Float[Tensor, "pair input feature batch"],
        mask: Float[Tensor, "pair input batch"] | None,
    ) -> Float[Tensor, "pair logit batch"]:
        """Log-factors inside some members and their inputs; ``None`` if all inputs are known."""
        own = self.own.index_select(0, members)
        constants = self.constants.index_select(0, members)
        if mask is None:
            own = own + constants.sum(2, keepdim=True)
        else:
            inputs = inputs * mask[:, :, None]
            own = torch.baddbmm(own, constants, mask)
        return torch.baddbmm(own, self.weights.index_select(0, members), inputs.flatten(1, 2))


def fold(
    terms: FactorTerms, groups: tuple[FactorGroup, ...], dtype: torch.dtype
) -> tuple[FoldedBlock, ...]:
    """Fold all unary and pairwise factors, for each block."""
    layout = terms.layout
    with torch.no_grad():
        folded = [_empty(block, dtype) for block in layout.blocks]
        for term in terms.terms:
            group = groups[term.group]
            if term.is_wide:
                continue
            tables = group.log_tables()[term.factors].movedim(term.place + 1, 1)
            relative = tables[:, 1:] - tables[:, :1]
            owner = term.owners
            for number, block in enumerate(layout.blocks):
                here = (layout.block_of[owner, 0] == number).nonzero().squeeze(1)
                if len(here):
                    members = layout.block_of[owner[here], 1]
                    _add(folded[number], block, layout, term, here, members, relative[here])
    return tuple(folded)


def _empty(block: Block, dtype: torch.dtype) -> FoldedBlock:
    shape = (block.size, block.num_logits)
    device = block.inputs.device
    return FoldedBlock(
        torch.zeros(*shape, block.num_inputs * block.num_features, dtype=dtype, device=device),
        torch.zeros(*shape, block.num_inputs, dtype=dtype, device=device),
        torch.zeros(*shape, 1, dtype=dtype, device=device),
    )


def _add(
    folded: FoldedBlock,
    block: Block,
    layout: Layout,
    term: Term,
    here: Int[Tensor, "factor"],
    members: Int[Tensor, "factor"],
    relative: Float[Tensor, "factor logit *state"],
) -> None:
    if relative.ndim == 2:  # unary
        folded.own.index_put_((members,), relative[:, :, None], accumulate=True)
        return
    places = term.slots[here, 0] - block.first_slot - members * block.num_inputs
    num_states = relative.shape[2]
    logit = torch.arange(block.num_logits, device=members.device)
    at = (members[:, None], logit[None])
    if num_states == 2:
        low, high = relative.unbind(2)
        folded.constants.index_put_((*at, places[:, None]), (high + low) / 2, accumulate=True)
        features = ((high - low) / 2)[:, :, None]
    else:
        features = relative
    first = places * block.num_features
    columns = first[:, None, None] + torch.arange(features.shape[2], device=members.device)
    index = (members[:, None, None], logit[None, :, None], columns)
    folded.weights.index_put_(index, features, accumulate=True)
