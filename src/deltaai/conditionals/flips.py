"""Hidden units with each input changed in turn, without ever holding all of them.

    moved_{v,i} = W2_v silu(z_v + W1_v[:, i] m_{v,i}),    z_v = W1_v x + b1_v,   m = change of input

For thousands of (variable, input) pairs the hidden units of all flips are by far the largest thing
in training, and reading and writing them takes longer than computing them. So they are computed a
few variables at a time, small enough for the processor's cache, and once more when gradients are
asked for. That pays where the function of a unit is cheap: tanh takes several times as long as
silu, and is better kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_NUMBERS_AT_ONCE = 2**17  # hidden units of flips that are held: half a megabyte


def flipped_units(
    before: Float[Tensor, "variable hidden batch"],
    first: Float[Tensor, "variable hidden input"],
    moves: Float[Tensor, "variable input batch"],
    last: Float[Tensor, "variable logit hidden"],
) -> Float[Tensor, "variable logit input batch"]:
    """What the last layer makes of the hidden units when one input has changed, for each.

    Parameters
    ----------
    before : pre-activations of the hidden units.
    first : weights of the inputs.
    moves : what each input changes by; has no gradient.
    last : weights of the hidden units.
    """
    found: Tensor = _FlippedUnits.apply(  # type: ignore[no-untyped-call]
        before, first, moves, last
    )
    return found


class _FlippedUnits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        before: Tensor,
        first: Tensor,
        moves: Tensor,
        last: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(before, first, moves, last)
        size, logits = last.shape[:2]
        moved = before.new_empty(size, logits, *moves.shape[1:])
        for some in _portions(before, moves):
            units = _pre_activations(before[some], first[some], moves[some])
            units = torch.nn.functional.silu(units)
            shape = moved[some].shape
            moved[some] = torch.bmm(last[some], units.flatten(2)).view(shape)
        return moved

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        before, first, moves, last = ctx.saved_tensors
        (slope,) = slopes
        found = [torch.empty_like(value) for value in (before, first, last)]
        for some in _portions(before, moves):
            units = _pre_activations(before[some], first[some], moves[some])
            above = slope[some].flatten(2)
            below = torch.bmm(last[some].transpose(1, 2), above).view(units.shape)
            after = torch.nn.functional.silu(units)
            below = torch.ops.aten.silu_backward(below, units)
            torch.bmm(above, after.flatten(2).transpose(1, 2), out=found[2][some])
            torch.sum(below, 2, out=found[0][some])
            torch.sum(below.mul_(moves[some][:, None]), 3, out=found[1][some])
        return found[0], found[1], None, found[2]


def _pre_activations(
    before: Float[Tensor, "variable hidden batch"],
    first: Float[Tensor, "variable hidden input"],
    moves: Float[Tensor, "variable input batch"],
) -> Float[Tensor, "variable hidden input batch"]:
    return torch.addcmul(before[:, :, None], first[..., None], moves[:, None])


def _portions(before: Tensor, moves: Tensor) -> Iterator[slice]:
    """Variables whose flips are held together."""
    each = before.shape[1] * moves.shape[1] * moves.shape[2]
    at_once = max(_NUMBERS_AT_ONCE // max(each, 1), 1)
    for start in range(0, len(before), at_once):
        yield slice(start, start + at_once)
