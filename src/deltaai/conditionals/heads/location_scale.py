"""Heads with a location and a log-scale, on a normal kernel: the line, and what is cut from it.

    kernel(x) = -(x - m)² / (2s²),   m = location, s = exp(log_scale)

Both are clamped, far beyond what standard units need, so that no output of a body makes a number
that is not finite: locations to a million either way, log-scales to 12, which is scales from 6e-6
to 1.6e5. Beyond the limits gradients are zero.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.base import LogDensity, Parameters, Values
from deltaai.conditionals.heads.real import Known, Read, RealHead

MOST_LOCATION = 1e6
MOST_LOG_SCALE = 12.0


class LocationScale(RealHead):
    """A normal kernel; parameters are its location and log-scale."""

    @property
    def num_parameters(self) -> int:
        """Location and log-scale."""
        return 2

    def known_parameters(self, location: Known, log_scale: Known) -> Parameters:
        """What is known is what they are."""
        return torch.stack((location, log_scale), -2)

    def read(self, parameters: Parameters) -> Read:
        """Location and log-scale, clamped."""
        location, log_scale = parameters.unbind(-2)
        return (
            location.clamp(-MOST_LOCATION, MOST_LOCATION),
            log_scale.clamp(-MOST_LOG_SCALE, MOST_LOG_SCALE),
        )

    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Difference of two kernels, as a product that keeps its digits far from the location."""
        location, log_scale = self.read(parameters)
        here, there = values.to(parameters.dtype), others.to(parameters.dtype)
        product = (here - there) * ((here - location) + (there - location))
        return -0.5 * product * (-2 * log_scale).exp()

    def draw(
        self,
        parameters: Parameters,
        inverse_temperature: float | Float[Tensor, "*lead batch"],
        generator: torch.Generator | None,
    ) -> Values:
        """Draw with the variance times the temperature."""
        location, log_scale = self.read(parameters)
        if isinstance(inverse_temperature, Tensor):
            log_scale = log_scale - 0.5 * inverse_temperature.log()
        elif inverse_temperature != 1:
            log_scale = log_scale - 0.5 * math.log(inverse_temperature)
        return self.draw_at(location, log_scale, generator)

    @abstractmethod
    def draw_at(
        self, location: Tensor, log_scale: Tensor, generator: torch.Generator | None
    ) -> Values:
        """Draw at a location and log-scale."""
