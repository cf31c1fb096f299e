"""Activations as compiled passes have them: in registers, several columns to an instruction.

tanh is the quotient of polynomials by which numerical libraries have it in single precision, right
to a few units in the last place; SiLU is x sigmoid(x), with sigmoid(x) = (1 + tanh(x/2)) / 2; and
hardswish has a straight line in place of the sigmoid.
"""

from __future__ import annotations

from functools import partial
from typing import no_type_check

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN stays NaN
KINDS = {"tanh": 0, "silu": 1, "hardswish": 2}  # activations by the number that says which


# For functions that others call in a loop, and for those that make a pass, with their signature.
inlined = numba.njit(fastmath=_FASTMATH, error_model="numpy", inline="always")
compiled = partial(numba.njit, fastmath=_FASTMATH, error_model="numpy", nogil=True, cache=True)

_single = np.float32
_ZERO, _HALF, _ONE, _THREE = _single(0), _single(0.5), _single(1), _single(3)
_SIXTH = _single(1 / 6)
_TANH, _SILU = KINDS["tanh"], KINDS["silu"]


@inlined
@no_type_check  # numba reads the function as it is written
def tangent(x: np.float32) -> np.float32:
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


@inlined
@no_type_check
def sigmoid(x: np.float32) -> np.float32:
    """Where it is below the precision of tanh it is zero."""
    return _HALF + _HALF * tangent(_HALF * x) if x > _single(-17) else x - x


@inlined
@no_type_check
def hard_sigmoid(x: np.float32) -> np.float32:
    """A straight line from zero at -3 to one at 3."""
    return min(max(x * _SIXTH + _HALF, _ZERO), _ONE)


@inlined
@no_type_check
def activated(x: np.float32, kind: int) -> np.float32:
    """The activation of a unit."""
    if kind == _TANH:
        return tangent(x)
    if kind == _SILU:
        return x * sigmoid(x)
    return x * hard_sigmoid(x)


@inlined
@no_type_check
def with_slope(x: np.float32, kind: int) -> tuple[np.float32, np.float32]:
    """The activation of a unit, and its slope."""
    if kind == _TANH:
        unit = tangent(x)
        return unit, _ONE - unit * unit
    if kind == _SILU:
        share = sigmoid(x)
        return x * share, share + x * share * (_ONE - share)
    share = hard_sigmoid(x)
    return x * share, share + (x * _SIXTH if abs(x) < _THREE else _ZERO)
