"""The Mills ratio, from which everything about truncated normal distributions follows.

    R(x) = ∫_x^∞ exp(-t²/2) dt / exp(-x²/2) = sqrt(π/2) erfcx(x / sqrt(2)),   x >= 0

It falls from sqrt(π/2) like 1/x, so unlike the tail itself it never underflows. Torch has erfcx,
but computes it one element at a time; a polynomial in t = (x - K) / (x + K), divided by x + K, has
all 15 digits and takes a third of the time. Its coefficients are interpolated once, from torch's.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

_CENTRE = 6.25  # K; this and the degree have the smallest error of all that were tried, 4e-15
_DEGREE = 20


def mills_ratio(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """R(x) of numbers from zero to 1e300, in double precision."""
    shifted = x + _CENTRE
    t = (x - _CENTRE) / shifted
    first, second, *others = _coefficients(x.device)
    total = torch.addcmul(second, first, t)
    for coefficient in others:
        torch.addcmul(coefficient, total, t, out=total)
    return total.div_(shifted)


@cache
def _coefficients(device: torch.device) -> tuple[Tensor, ...]:
    """Coefficients of the polynomial, the highest power first."""
    angles = (
        math.pi
        * (torch.arange(_DEGREE + 1, dtype=torch.float64, device="cpu") + 0.5)
        / (_DEGREE + 1)
    )
    t = angles.cos()
    x = _CENTRE * (1 + t) / (1 - t)
    ratio = math.sqrt(math.pi / 2) * torch.special.erfcx(x / math.sqrt(2))
    fitted = np.polynomial.Chebyshev.fit(
        t.numpy(), (ratio * (x + _CENTRE)).numpy(), _DEGREE, [-1, 1]
    )
    powers = np.polynomial.chebyshev.cheb2poly(fitted.coef)[::-1]
    return tuple(torch.tensor(c, dtype=torch.float64, device=device) for c in powers.tolist())
