"""Log-ratios of a product of conditionals with two states, in one compiled pass.

For every u, with s = ±1 the value of a variable and l its logit, l' that with u changed:

    ratio_u = (x_u - x'_u) l_u + Σ_{v: u among the inputs of v} log σ(s_v l_v) - log σ(s_v l'_v)

(:mod:`deltaai.conditionals.ratios`). Threads have columns of their own, for every variable adds to
several u.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from deltaai.conditionals.compiled_activations import Floats, Ints, compiled, inlined, sigmoid

_single = np.float32
_ZERO, _ONE, _TWO = _single(0), _single(1), _single(2)
_INDICES = "i8[::1], i8[::1], i8[::1], i8[::1]"  # variables, starts, counts, inputs
_VALUES = "f4[:,::1], f4[:,::1], f4[:,::1], f4[:,::1]"  # signs, moves, logits, flips
_AT_ONCE = 128  # columns


@inlined
@no_type_check  # numba reads the function as it is written
def _log_sigmoid(x: np.float32) -> np.float32:
    """Of σ(|x|), between a half and one, the logarithm is a short series; right to about 2e-7."""
    share = sigmoid(abs(x))
    z = (share - _ONE) / (share + _ONE)
    y = z * z
    series = _single(1 / 13)
    series = series * y + _single(1 / 11)
    series = series * y + _single(1 / 9)
    series = series * y + _single(1 / 7)
    series = series * y + _single(1 / 5)
    series = series * y + _single(1 / 3)
    series = series * y + _ONE
    return min(x, _ZERO) + _TWO * z * series


@compiled(f"void({_INDICES}, {_VALUES}, f4[:,::1], i8, i8)")
@no_type_check
def forward(
    variables: Ints,
    starts: Ints,
    counts: Ints,
    inputs: Ints,
    signs: Floats,
    moves: Floats,
    logits: Floats,
    flips: Floats,
    ratios: Floats,
    start: int,
    stop: int,
) -> None:
    """Add the ratios of some columns to zeros.

    Parameters
    ----------
    variables : of each row of logits.
    starts, counts : where its flips begin, and how many there are.
    inputs : the variable that is changed in each flip; the last row of ratios takes padding.
    signs, moves : value of each row's variable as ±1, and what it changes by, of 0 and 1.
    """
    base = np.empty(_AT_ONCE, np.float32)
    for low in range(start, stop, _AT_ONCE):
        high = min(low + _AT_ONCE, stop)
        for r in range(len(variables)):
            sign, move, logit = signs[r, low:high], moves[r, low:high], logits[r, low:high]
            own = ratios[variables[r], low:high]
            for b in range(high - low):
                base[b] = _log_sigmoid(sign[b] * logit[b])
                own[b] += move[b] * logit[b]
            for f in range(starts[r], starts[r] + counts[r]):
                flip, ratio = flips[f, low:high], ratios[inputs[f], low:high]
                for b in range(high - low):
                    ratio[b] += base[b] - _log_sigmoid(sign[b] * flip[b])


@compiled(f"void({_INDICES}, {_VALUES}, f4[:,::1], f4[:,::1], f4[:,::1], i8, i8)")
@no_type_check
def backward(
    variables: Ints,
    starts: Ints,
    counts: Ints,
    inputs: Ints,
    signs: Floats,
    moves: Floats,
    logits: Floats,
    flips: Floats,
    slopes: Floats,
    of_logits: Floats,
    of_flips: Floats,
    start: int,
    stop: int,
) -> None:
    """Fill in the slopes of logits and flips, from those of the ratios."""
    total = np.empty(_AT_ONCE, np.float32)
    for low in range(start, stop, _AT_ONCE):
        high = min(low + _AT_ONCE, stop)
        for r in range(len(variables)):
            sign, move, logit = signs[r, low:high], moves[r, low:high], logits[r, low:high]
            total[:] = _ZERO
            for f in range(starts[r], starts[r] + counts[r]):
                flip, slope = flips[f, low:high], slopes[inputs[f], low:high]
                of_flip = of_flips[f, low:high]
                for b in range(high - low):
                    total[b] += slope[b]
                    of_flip[b] = -slope[b] * sign[b] * sigmoid(-sign[b] * flip[b])
            slope, of_logit = slopes[variables[r], low:high], of_logits[r, low:high]
            for b in range(high - low):
                bent = sign[b] * sigmoid(-sign[b] * logit[b])
                of_logit[b] = move[b] * slope[b] + bent * total[b]
