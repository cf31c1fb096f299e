"""Numbers of real marginals: taken from users, and written for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deltaai.arguments import checked_count
from deltaai.errors import ConfigError, Setting, shown

_LARGEST_FIXED, _MOST_DECIMALS = 1e7, 6  # beyond these, numbers are written with an exponent


def written(values: Sequence[float], deviation: float) -> list[str]:
    """Write numbers of one distribution to two digits of its deviation.

    >>> written([1.7234, 0.0812], 0.0812), written([1.2e9, 3.4e7], 3.4e7)
    (['1.723', '0.081'], ['1.2e+09', '3.4e+07'])
    """
    decimals = 1 - math.floor(math.log10(deviation)) if deviation > 0 else 0
    largest = max(abs(value) for value in values)
    if decimals > _MOST_DECIMALS or largest >= _LARGEST_FIXED:
        return [f"{value:.4g}" for value in values]
    return [f"{value:.{max(decimals, 0)}f}" for value in values]


def bin_edges(bins: Any, low: float, high: float) -> np.ndarray:  # noqa: ANN401
    """Edges of bins: given, or so many over a range."""
    if isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str):
        edges = as_numbers(bins)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ConfigError(Setting("bins"), f" is {shown(bins)}: edges must ascend")
        return edges
    count = checked_count("bins", bins, 1)
    if low == high:
        margin = 0.5 * (abs(low) if low else 1.0)
        low, high = low - margin, high + margin
    return np.linspace(low, high, count + 1)


def as_probabilities(given: Any) -> np.ndarray:  # noqa: ANN401
    """Numbers from 0 to 1."""
    found = as_numbers(given)
    if not ((found >= 0) & (found <= 1)).all():
        raise ConfigError(
            Setting("probability"), f" is {shown(given)}; it must be a number from 0 to 1"
        )
    return found


def as_numbers(given: Any) -> np.ndarray:  # noqa: ANN401
    """An array of numbers, of one or a list or a tensor of them."""
    try:
        found = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        if found.dtype.kind not in "iuf":
            raise TypeError
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{shown(given)} is no number, and no array of numbers") from error


def plain(found: Any) -> Any:  # noqa: ANN401
    """An array, or a number where one was asked about."""
    return float(found) if np.ndim(found) == 0 else found
