"""The head of a variable on a box: a Beta distribution.

    log q(x) = (a - 1) log y + (b - 1) log(1 - y) - log B(a, b) - log(high - low)

with y = (x - low) / (high - low). Parameters are log a and log b, so zeros are the uniform
distribution. Concentrations are clamped to [1/2, 9e6], deviations down to 1e-4 of the width: below
1/2 too much of the mass lies closer to the ends than single precision tells apart. For the same
reason y and 1 - y are kept above 3e-8, closer to an end than which at most 1.1e-4 of the mass is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.base import LogDensity, Parameters, Values
from deltaai.conditionals.heads.real import Known, Read, RealHead, checked_ends
from deltaai.errors import ModelError

CLOSEST = 2.0**-25  # distance from an end, in widths
LEAST_LOG, MOST_LOG = math.log(0.5), 16.0  # of concentrations


@dataclass(frozen=True)
class Beta(RealHead):
    """A Beta distribution on a box; parameters are the logs of its two concentrations.

    Parameters
    ----------
    low, high : ends of the box.
    """

    low: float | int
    high: float | int

    def __post_init__(self) -> None:
        low, high = checked_ends("Beta", self.low, self.high)
        if math.isinf(low) or math.isinf(high):
            raise ModelError(
                f"Beta has a support from {low} to {high}: it needs two finite ends; use a normal "
                "head for other supports"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def support(self) -> tuple[float, float]:
        """Its ends."""
        return self.low, self.high

    @property
    def num_parameters(self) -> int:
        """Two log-concentrations."""
        return 2

    def known_parameters(self, location: Known, log_scale: Known) -> Parameters:
        """Log-concentrations of about that mean and deviation, by moments.

        The variance is that of a normal distribution joined with the uniform one on the box, so a
        large scale gives uniform concentrations.
        """
        width = self.high - self.low
        mean = ((location - self.low) / width).clamp(0.01, 0.99)
        precision = 12 + width**2 * (-2 * log_scale.clamp(-MOST_LOG, MOST_LOG)).exp()
        total = (mean * (1 - mean) * precision - 1).clamp(min=2)
        concentrations = torch.stack((mean * total, (1 - mean) * total), -2)
        return concentrations.log().clamp(LEAST_LOG, MOST_LOG)

    def read(self, parameters: Parameters) -> Read:
        """Log-concentrations, clamped."""
        return parameters.clamp(LEAST_LOG, MOST_LOG).unbind(-2)

    def log_kernel(self, read: Read, values: Values) -> LogDensity:
        """Sum of (a - 1) log y and (b - 1) log(1 - y)."""
        width = self.high - self.low
        inside = values.double()
        from_low = ((inside - self.low) / width).clamp(min=CLOSEST).log()
        from_high = ((self.high - inside) / width).clamp(min=CLOSEST).log()
        below, above = (part.double().expm1() for part in read)
        return (below * from_low + above * from_high).to(read[0].dtype)

    def log_normaliser(self, read: Read) -> LogDensity:
        """Log of the Beta function, and of the width."""
        below, above = (part.double().exp() for part in read)
        log_beta = below.lgamma() + above.lgamma() - (below + above).lgamma()
        return (log_beta + math.log(self.high - self.low)).to(read[0].dtype)

    def draw(
        self,
        parameters: Parameters,
        inverse_temperature: float | Float[Tensor, "*lead batch"],
        generator: torch.Generator | None,
    ) -> Values:
        """Share of one of two gamma draws; a temperature divides a - 1 and b - 1."""
        below, above = (
            _gamma(1 + inverse_temperature * log.double().expm1(), generator)
            for log in self.read(parameters)
        )
        total, width = below + above, self.high - self.low
        from_low = self.low + width * (below / total).clamp(min=CLOSEST)
        from_high = self.high - width * (above / total).clamp(min=CLOSEST)
        return torch.where(below < above, from_low, from_high).to(parameters.dtype)


def _gamma(
    concentrations: Float[Tensor, "*lead batch"], generator: torch.Generator | None
) -> Float[Tensor, "*lead batch"]:
    """Draws from gamma distributions of scale one, made where the generator is."""
    where = concentrations.device if generator is None else generator.device
    given = concentrations.clamp(min=math.exp(LEAST_LOG)).to(where)
    return torch._standard_gamma(given, generator).to(concentrations.device)
