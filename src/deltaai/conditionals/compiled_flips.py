"""Hidden units with each input changed in turn, in one compiled pass that holds none of them.

    moved_{v,i,b} = Σ_h last_{v,h} act(before_{v,h,b} + first_{v,h,i} moves_{v,i,b})

The units of all flips are by far the largest thing in training. Compiled by numba, an optional
package, they live in registers alone, forward and backward, which takes less than half of the time
of :mod:`deltaai.conditionals.flips`. Columns stand last, as they do everywhere, so that a unit of
several of them is one instruction.

Every variable is computed by one thread, so results do not depend on how many there are.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from deltaai.conditionals.compiled_activations import (
    KINDS,
    Floats,
    activated,
    compiled,
    with_slope,
)

__all__ = ["KINDS", "backward", "forward"]

_ARRAYS = "f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1]"  # before, first, moves, last
_ZERO = np.float32(0)


@compiled(f"void({_ARRAYS}, f4[:,:,::1], i8, i8, i8)")
@no_type_check  # numba reads the function as it is written
def forward(
    before: Floats,
    first: Floats,
    moves: Floats,
    last: Floats,
    moved: Floats,
    kind: int,
    start: int,
    stop: int,
) -> None:
    """Fill in ``moved`` for some variables."""
    for v in range(start, stop):
        for i in range(first.shape[2]):
            move, total = moves[v, i], moved[v, i]
            total[:] = _ZERO
            for h in range(before.shape[1]):
                units, change, weight = before[v, h], first[v, h, i], last[v, h]
                for b in range(before.shape[2]):
                    total[b] += weight * activated(units[b] + change * move[b], kind)


@compiled(f"void({_ARRAYS}, f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1], i8, i8, i8)")
@no_type_check  # numba reads the function as it is written
def backward(
    before: Floats,
    first: Floats,
    moves: Floats,
    last: Floats,
    slopes: Floats,
    of_before: Floats,
    of_first: Floats,
    of_last: Floats,
    kind: int,
    start: int,
    stop: int,
) -> None:
    """Add slopes to those of ``before``, ``first`` and ``last``, for some variables."""
    for v in range(start, stop):
        for i in range(first.shape[2]):
            move, slope = moves[v, i], slopes[v, i]
            for h in range(before.shape[1]):
                units, change, weight = before[v, h], first[v, h, i], last[v, h]
                of_units, of_change, of_weight = of_before[v, h], _ZERO, _ZERO
                for b in range(before.shape[2]):
                    unit, bend = with_slope(units[b] + change * move[b], kind)
                    of_weight += slope[b] * unit
                    inner = slope[b] * weight * bend
                    of_units[b] += inner
                    of_change += inner * move[b]
                of_first[v, h, i] += of_change
                of_last[v, h] += of_weight
