"""Hidden units with each input changed in turn, in one compiled pass that holds none of them.

    moved_{v,i,b} = Σ_h last_{v,h} act(before_{v,b,h} + first_{v,i,h} moves_{v,i,b})

The units of all flips are by far the largest thing in training. Compiled by numba, an optional
package, they live in registers alone, forward and backward, which takes less than half of the time
of :mod:`deltaai.conditionals.flips`. The hidden units stand last, so that several of them are one
instruction. tanh is the quotient of polynomials by which numerical libraries have it in single
precision, right to a few units in the last place, and SiLU is x sigmoid(x), with
sigmoid(x) = (1 + tanh(x/2)) / 2.

Every variable is computed by one thread, so results do not depend on how many there are.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_single = np.float32
_HALF, _ONE = _single(0.5), _single(1)
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN stays NaN
_ARRAYS = "f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1]"  # before, first, moves, last


@numba.njit(fastmath=_FASTMATH, error_model="numpy", inline="always")
@no_type_check  # numba reads the function as it is written
def _tanh(x: np.float32) -> np.float32:
    """Beyond ±9 it is one to the last digit."""
    x = min(max(x, _single(-9)), _single(9))
    y = x * x
    above = _single(-2.76076847742355e-16)
    above = above * y + _single(2.00018790482477e-13)
    above = above * y + _single(-8.60467152213735e-11)
    above = above * y + _single(5.12229709037114e-08)
    above = above * y + _single(1.48572235717979e-05)
    above = above * y + _single(6.37261928875436e-04)
    above = above * y + _single(4.89352455891786e-03)
    below = _single(1.19825839466702e-06)
    below = below * y + _single(1.18534705686654e-04)
    below = below * y + _single(2.26843463243900e-03)
    below = below * y + _single(4.89352518554385e-03)
    return min(max(x * above / below, -_ONE), _ONE)


@numba.njit(fastmath=_FASTMATH, error_model="numpy", inline="always")
@no_type_check
def _sigmoid(x: np.float32) -> np.float32:
    """Where it is below the precision of tanh it is zero."""
    return _HALF + _HALF * _tanh(_HALF * x) if x > _single(-17) else x - x


@numba.njit(
    f"void({_ARRAYS}, f4[:,:,::1], b1, i8, i8)",
    fastmath=_FASTMATH,
    error_model="numpy",
    nogil=True,
    cache=True,
)
@no_type_check  # numba reads the function as it is written
def forward(
    before: Floats,
    first: Floats,
    moves: Floats,
    last: Floats,
    moved: Floats,
    is_tanh: bool,
    start: int,
    stop: int,
) -> None:
    """Fill in ``moved`` for some variables."""
    for v in range(start, stop):
        weights = last[v]
        for i in range(first.shape[1]):
            change = first[v, i]
            for b in range(before.shape[1]):
                move, units, total = moves[v, i, b], before[v, b], _single(0)
                if is_tanh:
                    for h in range(len(change)):
                        total += weights[h] * _tanh(units[h] + change[h] * move)
                else:
                    for h in range(len(change)):
                        x = units[h] + change[h] * move
                        total += weights[h] * x * _sigmoid(x)
                moved[v, i, b] = total


@numba.njit(
    f"void({_ARRAYS}, f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1], b1, i8, i8)",
    fastmath=_FASTMATH,
    error_model="numpy",
    nogil=True,
    cache=True,
)
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
    is_tanh: bool,
    start: int,
    stop: int,
) -> None:
    """Add slopes to those of ``before``, ``first`` and ``last``, for some variables."""
    for v in range(start, stop):
        weights, of_weights = last[v], of_last[v]
        for i in range(first.shape[1]):
            change, of_change = first[v, i], of_first[v, i]
            for b in range(before.shape[1]):
                move, slope = moves[v, i, b], slopes[v, i, b]
                units, of_units = before[v, b], of_before[v, b]
                if is_tanh:
                    for h in range(len(change)):
                        unit = _tanh(units[h] + change[h] * move)
                        of_weights[h] += slope * unit
                        inner = slope * weights[h] * (_ONE - unit * unit)
                        of_units[h] += inner
                        of_change[h] += inner * move
                else:
                    for h in range(len(change)):
                        x = units[h] + change[h] * move
                        share = _sigmoid(x)
                        unit = x * share
                        of_weights[h] += slope * unit
                        inner = slope * weights[h] * (share + unit * (_ONE - share))
                        of_units[h] += inner
                        of_change[h] += inner * move
