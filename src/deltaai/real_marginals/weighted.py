"""A distribution that is known by weighted samples, with standard errors of all figures.

By the delta method over groups of samples that are independent: with w̄ the weights divided by
their sum, f_i any function of sample i and m = Σ_i w̄_i f_i,

    stderr² = Σ_g ( Σ_{i in g} w̄_i (f_i - m) )²  G / (G - 1)
              +  (max_g w̄_g)² Var(f)  +  (max_i w̄_i  max_i |f_i - m|)²  +  (max_i |f_i - m| / N)²

as for the states of a variable (``trust/weighted.py``, which says what the last terms are for). A
deviation s has f = (x - mean)², and the error of s² divided by 2s; a quantile is as far off as the
numbers at its probability less and plus an error (Woodruff).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from deltaai.arguments import checked_count
from deltaai.errors import StateError, WeightError
from deltaai.real_marginals.marginal import RealMarginal
from deltaai.real_marginals.numbers import as_numbers, as_probabilities, plain


class WeightedMarginal(RealMarginal):
    """A distribution known by samples."""

    def __init__(self, values: Any, weights: Any, group_size: int) -> None:  # noqa: ANN401
        self.values = as_numbers(values)
        if self.values.ndim != 1 or len(self.values) == 0:
            raise StateError(f"samples have shape {self.values.shape}: one number a sample")
        self.group_size = checked_count("group_size", group_size, 1)
        self.weights = _shares(weights, len(self.values))
        is_odd = ~np.isfinite(self.values) & (self.weights > 0)
        if is_odd.any():
            sample = int(is_odd.argmax())
            raise StateError(f"the value of sample {sample} is {self.values[sample]}")
        self.values = np.where(self.weights > 0, self.values, self.values[self.weights.argmax()])
        self.mean = float(self.weights @ self.values)
        self._away = self.values - self.mean
        self.deviation = math.sqrt(float(self.weights @ self._away**2))
        if self.values.min() == self.values.max():  # but for rounding
            self.mean, self.deviation = float(self.values[0]), 0.0
            self._away = np.zeros_like(self.values)

    @property
    def is_closed_form(self) -> bool:
        """Whether density, cdf and quantiles are formulas."""
        return False

    @cached_property
    def stderr(self) -> float:  # type: ignore[override]
        """Of the mean."""
        return self._error_of(self._away)

    @cached_property
    def deviation_stderr(self) -> float:  # type: ignore[override]
        """Of the deviation."""
        if self.is_certain:
            return 0.0
        return self._error_of(self._away**2 - self.deviation**2) / (2 * self.deviation)

    def quantile(self, probability: Any) -> Any:  # noqa: ANN401
        """The number below which so much of the distribution lies."""
        values, middles, _ = self._sorted
        return plain(np.interp(as_probabilities(probability), middles, values))

    def quantile_stderr(self, probability: Any) -> Any:  # noqa: ANN401
        """Standard errors of :meth:`quantile`."""
        asked = as_probabilities(probability)
        centres = np.atleast_1d(self.quantile(asked)).ravel()
        found = []
        for share, centre in zip(np.atleast_1d(asked).ravel(), centres, strict=True):
            error = self._error_of((self.values <= centre) - share)
            around = np.clip([share - error, share + error], 0.0, 1.0)
            low, high = self.quantile(around)
            found.append((high - low) / 2)
        return plain(np.array(found).reshape(asked.shape))

    def cdf(self, value: Any) -> Any:  # noqa: ANN401
        """How much of the distribution lies at a number or below it."""
        return self._share(value, "right")

    def density(self, value: Any) -> Any:  # noqa: ANN401
        """The density, where it is known in closed form."""
        raise StateError(
            "the density of what was sampled is not known in closed form: look at histogram()"
        )

    def _ends(self) -> tuple[float, float]:
        return float(self.values.min()), float(self.values.max())

    def _below(self, value: float) -> float:
        return float(self._share(value, "left"))

    def _share(self, value: Any, side: Any) -> Any:  # noqa: ANN401
        values, _, up_to = self._sorted
        return plain(up_to[np.searchsorted(values, as_numbers(value), side)])

    def _error_of(self, away: np.ndarray) -> float:
        """Standard error of the mean of a function, less its mean."""
        starts = np.arange(0, len(away), self.group_size)
        sums = np.add.reduceat(self.weights * away, starts)
        totals = np.add.reduceat(self.weights, starts)
        spread = float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1)
        reach = float(np.abs(away).max())
        unseen = totals.max() ** 2 * float(self.weights @ away**2)
        unseen += (self.weights.max() * reach) ** 2 + (reach / len(away)) ** 2
        return math.sqrt(spread + unseen)

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, ascending; the probability at the middle of each; that up to each, from 0 on."""
        order = np.argsort(self.values, kind="stable")
        weights = self.weights[order]
        up_to = np.concatenate(([0.0], np.cumsum(weights)))
        up_to = np.minimum(up_to / up_to[-1], 1.0)
        return self.values[order], (up_to[1:] + up_to[:-1]) / 2, up_to


def _shares(weights: Any, count: int) -> np.ndarray:  # noqa: ANN401
    """Weights that sum to one."""
    if weights is None:
        return np.full(count, 1.0 / count)
    found = as_numbers(weights)
    if found.shape != (count,):
        raise WeightError(f"there are {count} samples, and weights of shape {found.shape}")
    if not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise WeightError("weights of samples must be finite, not negative, and not all zero")
    found = found / found.max()  # else a sum may overflow
    return np.asarray(found / found.sum())
