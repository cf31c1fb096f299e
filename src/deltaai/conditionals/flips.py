"""Hidden units with each input changed in turn, without ever holding all of them.

    moved_{v,i} = W2_v silu(z_v + W1_v[:, i] m_{v,i}),    z_v = W1_v x + b1_v,   m = change of input

(or tanh in place of silu). For thousands of (variable, input) pairs the hidden units of all flips
are by far the largest thing in training, and reading and writing them takes longer than computing
them. So they are not held: where there are many, and numba is there, one compiled pass computes
them in registers (:mod:`deltaai.conditionals.compiled_flips`). Else they are computed a few
variables at a time, small enough for the processor's cache, and once more when gradients are asked
for. That pays where the function of a unit is cheap: tanh takes longer than silu and hardswish, so
there they are kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from deltaai.conditionals.hyperbolic import tanh
from deltaai.threads import over_threads

Activation = Literal["tanh", "silu", "hardswish"]

_NUMBERS_AT_ONCE = 2**17  # hidden units of flips that are held: half a megabyte
# Hidden units of all flips of an update from which loading the compiled pass, half a second, pays.
_MANY = 2**20
_MANY_A_THREAD = 2**18
_COLUMNS_TOGETHER = 64


# Functions that are cheaper to compute again than to keep, and what their gradients go through.
_CHEAP: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": torch.ops.aten.silu_backward,
    "hardswish": torch.ops.aten.hardswish_backward,
}


def activated(before: Tensor, activation: Activation) -> Tensor:
    """Hidden units, from their pre-activations."""
    if activation == "tanh":
        return tanh(before)
    if activation == "silu":
        return functional.silu(before)
    return functional.hardswish(before)


def is_worth_compiling(num_units: int) -> bool:
    """Whether flips with so many hidden units in all are left to the compiled pass.

    This depends on sizes alone, so that a run that is taken up goes on as it was.
    """
    return num_units >= _MANY


def flipped_units(
    before: Float[Tensor, "variable hidden batch"],
    first: Float[Tensor, "variable hidden input"],
    moves: Float[Tensor, "variable input batch"],
    last: Float[Tensor, "variable logit hidden"],
    activation: Activation,
    *,
    is_compiled: bool = False,
) -> Float[Tensor, "variable logit input batch"]:
    """What the last layer makes of the hidden units when one input has changed, for each.

    Parameters
    ----------
    before : pre-activations of the hidden units.
    first : weights of the inputs.
    moves : what each input changes by; has no gradient.
    last : weights of the hidden units.
    activation : of the hidden units.
    is_compiled : by the compiled pass, if it is there and made for such numbers.
    """
    found: Tensor
    is_made_for = before.device.type == "cpu" and before.dtype == torch.float32
    if is_compiled and is_made_for and last.shape[1] == 1 and load_compiled() is not None:
        found = _CompiledUnits.apply(  # type: ignore[no-untyped-call]
            before, first, moves, last, activation
        )
    elif activation in _CHEAP:
        found = _FlippedUnits.apply(  # type: ignore[no-untyped-call]
            before, first, moves, last, activation
        )
    else:
        units = activated(before[:, :, None] + first[..., None] * moves[:, None], activation)
        found = torch.bmm(last, units.flatten(2)).view(len(last), last.shape[1], *moves.shape[1:])
    return found


@cache
def load_compiled() -> ModuleType | None:
    """The compiled passes; none without numba, or where it cannot keep what it compiled."""
    try:
        importlib.import_module("deltaai.conditionals.compiled_networks")
        importlib.import_module("deltaai.conditionals.compiled_ratios")
        importlib.import_module("deltaai.conditionals.compiled_tables")
        return importlib.import_module("deltaai.conditionals.compiled_flips")
    except (ImportError, RuntimeError, OSError):
        return None


class _CompiledUnits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        before: Tensor,
        first: Tensor,
        moves: Tensor,
        last: Tensor,
        activation: Activation,
    ) -> Tensor:
        given = [value.detach().contiguous() for value in (before, first, moves, last.squeeze(1))]
        ctx.save_for_backward(*given)
        ctx.activation = activation
        moved = torch.empty_like(given[2])
        _run("forward", [*given, moved], activation)
        return moved[:, None]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        before, first, moves, last = ctx.saved_tensors
        found = [torch.zeros_like(value) for value in (before, first, last)]
        slope = slopes[0].squeeze(1).contiguous()
        _run("backward", [before, first, moves, last, slope, *found], ctx.activation)
        return found[0], found[1], None, found[2][:, None], None


def _run(name: str, tensors: list[Tensor], activation: Activation) -> None:
    """Run a compiled pass over all variables, on as many threads as torch may use."""
    compiled = load_compiled()
    assert compiled is not None
    kernel, kind = getattr(compiled, name), compiled.KINDS[activation]
    arrays = [value.numpy() for value in tensors]
    before, moves = tensors[0], tensors[2]
    units = moves.numel() * before.shape[1]
    shared_out(lambda start, stop: kernel(*arrays, kind, start, stop), len(before), units)


def shared_out(
    work: Callable[[int, int], None], count: int, num_units: int, *, is_columns: bool = False
) -> None:
    """Run a compiled pass over a range, on as many threads as it may use and units are worth.

    Parameters
    ----------
    is_columns : whether the range is that of columns, several of which are one instruction: those
        left over are computed one by one, with another rounding, so parts must not begin anywhere.
    """
    multiple = _COLUMNS_TOGETHER if is_columns else 1
    over_threads(work, count, most=num_units // _MANY_A_THREAD, multiple=multiple)


class _FlippedUnits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        before: Tensor,
        first: Tensor,
        moves: Tensor,
        last: Tensor,
        activation: Activation,
    ) -> Tensor:
        ctx.save_for_backward(before, first, moves, last)
        ctx.activation = activation
        size, logits = last.shape[:2]
        moved = before.new_empty(size, logits, *moves.shape[1:])
        for some in _portions(before, moves):
            units = _pre_activations(before[some], first[some], moves[some])
            units = activated(units, activation)
            shape = moved[some].shape
            moved[some] = torch.bmm(last[some], units.flatten(2)).view(shape)
        return moved

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        before, first, moves, last = ctx.saved_tensors
        (slope,), slopes_of = slopes, _CHEAP[ctx.activation]
        found = [torch.empty_like(value) for value in (before, first, last)]
        for some in _portions(before, moves):
            units = _pre_activations(before[some], first[some], moves[some])
            above = slope[some].flatten(2)
            below = torch.bmm(last[some].transpose(1, 2), above).view(units.shape)
            after = activated(units, ctx.activation)
            below = slopes_of(below, units)
            torch.bmm(above, after.flatten(2).transpose(1, 2), out=found[2][some])
            torch.sum(below, 2, out=found[0][some])
            torch.sum(below.mul_(moves[some][:, None]), 3, out=found[1][some])
        return found[0], found[1], None, found[2], None


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
