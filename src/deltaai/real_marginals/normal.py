"""A normal distribution, or a number that is certain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed

from deltaai.errors import StateError
from deltaai.real_marginals.marginal import RealMarginal
from deltaai.real_marginals.numbers import as_numbers, as_probabilities, plain


class NormalMarginal(RealMarginal):
    """A normal distribution, or a point."""

    def __init__(self, mean: float, deviation: float) -> None:
        self.mean, self.deviation = mean, deviation

    @property
    def is_closed_form(self) -> bool:
        """Whether density, cdf and quantiles are formulas."""
        return True

    def quantile(self, probability: Any) -> Any:  # noqa: ANN401
        """The number below which so much of the distribution lies."""
        reach = scipy.special.ndtri(as_probabilities(probability))
        if self.is_certain:
            reach = np.zeros_like(reach)
        return plain(self.mean + self.deviation * reach)

    def quantile_stderr(self, probability: Any) -> Any:  # noqa: ANN401
        """Standard errors of :meth:`quantile`."""
        return plain(np.zeros_like(as_probabilities(probability)))

    def cdf(self, value: Any) -> Any:  # noqa: ANN401
        """How much of the distribution lies at a number or below it."""
        away = as_numbers(value) - self.mean
        if self.is_certain:
            return plain((away >= 0).astype(float))
        return plain(scipy.special.ndtr(away / self.deviation))

    def density(self, value: Any) -> Any:  # noqa: ANN401
        """The density, where it is known in closed form."""
        away = as_numbers(value) - self.mean
        if self.is_certain:
            raise StateError(f"the variable is {self.mean:.6g} for certain, which has no density")
        peak = 1.0 / (self.deviation * math.sqrt(2.0 * math.pi))
        return plain(peak * np.exp(-0.5 * (away / self.deviation) ** 2))

    def _below(self, value: float) -> float:
        return float(value > self.mean) if self.is_certain else float(self.cdf(value))
