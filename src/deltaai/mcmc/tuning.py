"""How far Hamiltonian chains step: at each inverse temperature, for all variables and for each.

Variable v moves by ε s_v a step: s_v, its scale, stands for the reciprocal root of its mass. From
chains that are in place, a scale is the smaller of

- the deviation of the chains, and
- 1 / sqrt(E[(∂ log π / ∂ x_v)²]), which for a normal density is the deviation given all others.

In several modes the former says how far apart they are, and the latter how wide each is, which is
what steps must heed; on a flat stretch the latter says nothing. The step length ε is driven to
where proposals are accepted as often as is best by dual averaging (Nesterov; Hoffman and Gelman,
*The No-U-Turn sampler*, 2014):

    log ε_t = μ - sqrt(t) / γ · 1/(t + t_0) Σ_i (a* - a_i),

a_i being the acceptance at step i, with averages of log ε_t, weighted by t^-κ, in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

# Of dual averaging; the values of the paper.
_GAMMA, _OFFSET, _KAPPA = 0.05, 10.0, 0.75
_FARTHEST = 15.0  # that a log step length may be from where it started
_SMALLEST = 1e-12  # scale, relative to that of the reference


@dataclass(frozen=True, eq=False)
class Tuning:
    """Step lengths and scales along a path of targets; in between they are interpolated.

    Parameters
    ----------
    betas : inverse temperatures, rising; beyond the ends what is said of these holds.
    log_step_sizes : at each of them, for all chains or for each.
    log_scales : at each of them, for each real variable.
    """

    betas: tuple[float, ...]
    log_step_sizes: Float64[Tensor, "knot width"]
    log_scales: Float64[Tensor, "knot real"]

    @classmethod
    def constant(
        cls, step_size: Float64[Tensor, "width"], scales: Float64[Tensor, "real"]
    ) -> Tuning:
        """The same at every temperature."""
        return cls((1.0,), step_size.log()[None], scales.log()[None])

    def at(self, beta: float) -> tuple[Float64[Tensor, "width"], Float64[Tensor, "real"]]:
        """Step lengths and scales at an inverse temperature."""
        place = float(np.interp(beta, self.betas, np.arange(len(self.betas))))
        before = min(int(place), len(self.betas) - 1)
        after, share = min(before + 1, len(self.betas) - 1), place - before
        mixed = (
            (1 - share) * values[before] + share * values[after]
            for values in (self.log_step_sizes, self.log_scales)
        )
        step_size, scales = (values.exp() for values in mixed)
        return step_size, scales


@dataclass
class StepSearch:
    """Dual averaging of one step length.

    Parameters
    ----------
    start : log step length to begin with.
    target : acceptance that is wanted.
    """

    start: float
    target: float
    count: int = field(default=0, init=False)
    missing: float = field(default=0.0, init=False)  # mean of what acceptance lacked
    averaged: float = field(default=0.0, init=False)

    @property
    def current(self) -> float:
        """Log step length to try next."""
        away = -math.sqrt(self.count) / _GAMMA * self.missing
        # It starts from ten times as large a step, for large ones are quick to be refused.
        shifted = self.start + (math.log(10.0) if self.count else 0.0)
        return min(max(shifted + away, self.start - _FARTHEST), self.start + _FARTHEST)

    def found(self, acceptance: float) -> None:
        """Heed how often the last one was accepted."""
        self.count += 1
        share = 1 / (self.count + _OFFSET)
        self.missing = (1 - share) * self.missing + share * (self.target - acceptance)
        weight = self.count**-_KAPPA
        self.averaged = weight * self.current + (1 - weight) * self.averaged


def scales_of(
    positions: Float64[Tensor, "real chain"],
    slopes: Float64[Tensor, "real chain"],
    widest: Float64[Tensor, "real"],
) -> Float64[Tensor, "real"]:
    """Scales by chains that are in place.

    Parameters
    ----------
    slopes : derivatives of the log target.
    widest : scales where chains say nothing.
    """
    spread = positions.std(1, correction=0)
    local = slopes.square().mean(1).clamp(min=torch.finfo(slopes.dtype).tiny).rsqrt()
    scales = torch.minimum(spread, local)
    is_usable = scales.isfinite() & (scales > _SMALLEST * widest)
    return torch.where(is_usable, scales, widest)
