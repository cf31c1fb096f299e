"""What an answer says of one real variable, however it was found.

Where a state has a probability, a real variable has a distribution on the line: known in closed
form (:mod:`deltaai.real_marginals.normal`) or by weighted samples
(:mod:`deltaai.real_marginals.weighted`). Both say the same things of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from deltaai.arguments import is_finite
from deltaai.display import Card, Shown
from deltaai.errors import StateError, shown
from deltaai.real_marginals.numbers import bin_edges, written

QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
_BINS = 30
_TAIL = 0.001  # on either side, that a histogram of a whole line leaves out


class RealMarginal(Shown, ABC):
    """The distribution of one real variable; made by :meth:`normal` or :meth:`weighted`.

    Parameters
    ----------
    mean, deviation : of the distribution.
    stderr, deviation_stderr : their standard errors; zero if nothing is random.

    Examples
    --------
    >>> height = RealMarginal.normal(1.72, 0.0064)
    >>> print(height)
    1.720 ± 0.080 [1.563, 1.877]
    >>> round(height.quantile(0.5), 2), round(height.cdf(1.8), 3)
    (1.72, 0.841)
    """

    mean: float
    deviation: float
    stderr: float = 0.0
    deviation_stderr: float = 0.0

    @staticmethod
    def normal(mean: Any, variance: Any) -> RealMarginal:  # noqa: ANN401
        """A normal distribution; with variance zero a value that is certain."""
        if not is_finite(mean) or not is_finite(variance) or variance < 0:
            raise StateError(
                f"a normal marginal has mean {shown(mean)} and variance {shown(variance)}: they "
                "must be finite, and the variance at least 0"
            )
        from deltaai.real_marginals.normal import NormalMarginal  # noqa: PLC0415  of this kind

        return NormalMarginal(float(mean), math.sqrt(variance))

    @staticmethod
    def weighted(values: Any, weights: Any = None, group_size: int = 1) -> RealMarginal:  # noqa: ANN401
        """What weighted samples say.

        Parameters
        ----------
        values : of the variable, one a sample.
        weights : of the samples, not negative, of any sum; all alike by default.
        group_size : successive samples that depend on each other; others are independent.

        Examples
        --------
        >>> found = RealMarginal.weighted([0.0, 1.0, 2.0], [1.0, 2.0, 1.0])
        >>> found.mean, round(found.deviation, 4)
        (1.0, 0.7071)
        """
        from deltaai.real_marginals.weighted import WeightedMarginal  # noqa: PLC0415  of this kind

        return WeightedMarginal(values, weights, group_size)

    # -- what each kind says -------------------------------------------------------------------

    @abstractmethod
    def quantile(self, probability: Any) -> Any:  # noqa: ANN401
        """The number below which so much of the distribution lies; one for each probability."""

    @abstractmethod
    def quantile_stderr(self, probability: Any) -> Any:  # noqa: ANN401
        """Standard errors of :meth:`quantile`."""

    @abstractmethod
    def cdf(self, value: Any) -> Any:  # noqa: ANN401
        """How much of the distribution lies at a number or below it."""

    @abstractmethod
    def density(self, value: Any) -> Any:  # noqa: ANN401
        """The density, where it is known in closed form."""

    @property
    @abstractmethod
    def is_closed_form(self) -> bool:
        """Whether density, cdf and quantiles are formulas."""

    # -- what follows --------------------------------------------------------------------------

    @property
    def variance(self) -> float:
        """The square of the deviation."""
        return self.deviation**2

    @property
    def is_certain(self) -> bool:
        """Whether it is one number."""
        return self.deviation == 0

    @property
    def quantiles(self) -> dict[float, float]:
        """Those at 2.5, 25, 50, 75 and 97.5 %."""
        found = self.quantile(np.array(QUANTILES))
        return dict(zip(QUANTILES, found.tolist(), strict=True))

    def histogram(
        self, bins: int | Sequence[float] | np.ndarray = _BINS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of bins, and the edges of these, one more.

        Parameters
        ----------
        bins : their number, or their edges, ascending. Bins that are counted go from the least
            sample to the largest, or leave out a thousandth on either side of a formula.
        """
        edges = bin_edges(bins, *self._ends())
        below = np.asarray(self.cdf(edges))
        inside = np.diff(below)
        inside[:1] += below[0] - self._below(edges[0])  # the first bin holds its lower end
        return inside, edges

    def summary(self) -> dict[str, Any]:
        """All figures, as a file may hold them."""
        found: dict[str, Any] = {"mean": self.mean, "deviation": self.deviation}
        found["quantiles"] = {f"{q:g}": value for q, value in self.quantiles.items()}
        if not self.is_closed_form:
            found |= {"stderr": self.stderr, "deviation_stderr": self.deviation_stderr}
        return found

    def __str__(self) -> str:
        """Mean ± deviation, and where 95 % of it lies; what sampling adds, if it was sampled."""
        low, high = self.quantile(np.array([QUANTILES[0], QUANTILES[-1]])).tolist()
        if self.is_certain:
            return f"{self.mean:.6g}"
        mean, deviation, low_end, high_end = written(
            [self.mean, self.deviation, low, high], self.deviation
        )
        error = "" if self.is_closed_form else f" (standard error of the mean {self.stderr:.1g})"
        return f"{mean} ± {deviation} [{low_end}, {high_end}]{error}"

    def __repr__(self) -> str:
        return f"RealMarginal({self})"

    def _card(self) -> Card:
        rows = [("mean", f"{self.mean:.6g}"), ("deviation", f"{self.deviation:.6g}")]
        rows += [(f"{100 * q:g} %", f"{value:.6g}") for q, value in self.quantiles.items()]
        return Card(str(self), tuple(rows))

    def _ends(self) -> tuple[float, float]:
        """Where a histogram begins and ends."""
        low, high = self.quantile(np.array([_TAIL, 1 - _TAIL])).tolist()
        return low, high

    def _below(self, value: float) -> float:
        """How much lies strictly below a number."""
        return float(self.cdf(value))
