"""The head of a variable on a box or half-line: a normal distribution cut to the support."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deltaai.conditionals.heads.base import LogDensity, Values
from deltaai.conditionals.heads.location_scale import LocationScale
from deltaai.conditionals.heads.real import Read, checked_ends
from deltaai.conditionals.heads.truncated_draws import draw_truncated
from deltaai.conditionals.heads.truncation import log_normaliser
from deltaai.errors import ModelError
from deltaai.randomness import uniform


@dataclass(frozen=True)
class TruncatedNormal(LocationScale):
    """A normal distribution cut to an interval; parameters are those before it is cut.

    The mean may be anywhere: far outside, the distribution is exponential from the near end, and
    with a large scale it is uniform.

    Parameters
    ----------
    low, high : ends of the interval, one of which may be infinite.
    """

    low: float | int
    high: float | int

    def __post_init__(self) -> None:
        low, high = checked_ends("TruncatedNormal", self.low, self.high)
        if math.isinf(low) and math.isinf(high):
            raise ModelError(
                "TruncatedNormal has a support without ends: give one that is finite, or use "
                "Normal()"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def support(self) -> tuple[float, float]:
        """Its ends."""
        return self.low, self.high

    def log_kernel(self, read: Read, values: Values) -> LogDensity:
        """Zero at the mode, the point of the support nearest to the mean."""
        location, log_scale = read
        mode = location.clamp(self.low, self.high)
        product = (values - mode) * ((values - location) + (mode - location))
        return -0.5 * product * (-2 * log_scale).exp()

    def log_normaliser(self, read: Read) -> LogDensity:
        """Log-integral of the kernel over the interval."""
        return log_normaliser(read[0], read[1], self.low, self.high)

    def draw_at(
        self, location: Tensor, log_scale: Tensor, generator: torch.Generator | None
    ) -> Values:
        """Draw at a mean and log-deviation of the distribution before it is cut."""
        device = location.device
        chance = uniform(location.shape, generator, dtype=torch.float64, device=device)
        return draw_truncated(location, log_scale, self.low, self.high, chance).to(location.dtype)
