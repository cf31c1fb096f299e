"""The head of a variable on the line: a normal distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deltaai.conditionals.heads.base import LogDensity, Values
from deltaai.conditionals.heads.location_scale import LocationScale
from deltaai.conditionals.heads.real import Read
from deltaai.randomness import normal

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Normal(LocationScale):
    """A normal distribution on the line; parameters are its mean and the log of its deviation."""

    @property
    def support(self) -> tuple[float, float]:
        """The line."""
        return -math.inf, math.inf

    def log_kernel(self, read: Read, values: Values) -> LogDensity:
        """Minus half the square of the deviations from the mean."""
        location, log_scale = read
        return -0.5 * ((values - location) * (-log_scale).exp()).square()

    def log_normaliser(self, read: Read) -> LogDensity:
        """Log s + log(2π) / 2."""
        return read[1] + _HALF_LOG_TAU

    def draw_at(
        self, location: Tensor, log_scale: Tensor, generator: torch.Generator | None
    ) -> Values:
        """Draw at a mean and log-deviation."""
        drawn = normal(location.shape, generator, dtype=location.dtype, device=location.device)
        return torch.addcmul(location, drawn, log_scale.exp())
