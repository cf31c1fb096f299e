"""Numbers as states: cut at quantiles, with labels that say where; and back from the labels.

The labels of three bins are ``<1.5``, ``1.5..2.5`` and ``>=2.5``. A cut is written with as few
digits as tell the numbers apart, and is where it is written, so that a variable made of bins says
in its labels all there is to know about them: numbers that come later fall into the same bins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_FEWEST_DIGITS, _MOST_DIGITS = 6, 17  # the latter are enough for any number
_LOWEST, _HIGHEST = re.compile(r"<(.+)"), re.compile(r">=(.+)")
_BETWEEN = re.compile(r"(.+?)\.\.(.+)")


@dataclass(frozen=True)
class Cuts:
    """Where numbers are cut into bins.

    Parameters
    ----------
    texts : the cuts as they are written, from the smallest.

    Examples
    --------
    >>> cuts = Cuts.at_quantiles(np.array([1.0, 2.0, 2.5, 7.0]), 2)
    >>> cuts.labels, cuts.states_of(np.array([2.0, 2.5])).tolist()
    (['<2.5', '>=2.5'], [0, 1])
    >>> Cuts.of_labels(cuts.labels) == cuts, Cuts.of_labels(["no", "yes"]) is None
    (True, True)
    """

    texts: tuple[str, ...]

    @classmethod
    def at_quantiles(cls, cells: np.ndarray, bins: int) -> Cuts:
        """Cut numbers, not all of them equal, into so many bins, or fewer if many are equal."""
        cuts = np.unique(np.quantile(cells, np.arange(1, bins) / bins, method="higher"))
        cuts = cuts[cuts > cells.min()]  # nothing is below the smallest
        values = np.unique(cells)
        if not len(cuts):  # most cells are the smallest
            cuts = values[1:2]
        wanted = np.searchsorted(cuts, values, side="right")
        for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
            found = cls(tuple(f"{cut:.{digits}g}" for cut in cuts))
            if np.array_equal(found.states_of(values), wanted):
                break
        return found

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> Cuts | None:
        """The cuts that labels speak of; none if they are not those of bins."""
        if len(labels) < 2:
            return None
        first, last = _LOWEST.fullmatch(labels[0]), _HIGHEST.fullmatch(labels[-1])
        between = [_BETWEEN.fullmatch(label) for label in labels[1:-1]]
        if first is None or last is None or None in between:
            return None
        texts = (first[1], *(match[2] for match in between if match is not None))
        cuts = None if numbers_of(texts) is None else cls(texts)
        return cuts if cuts is not None and cuts.labels == list(labels) else None

    @property
    def labels(self) -> list[str]:
        """One for each bin."""
        between = [f"{low}..{high}" for low, high in pairwise(self.texts)]
        return [f"<{self.texts[0]}", *between, f">={self.texts[-1]}"]

    def states_of(self, numbers: np.ndarray) -> np.ndarray:
        """The bin of each number."""
        return np.searchsorted([float(text) for text in self.texts], numbers, side="right")


def number_of(label: str) -> float | None:
    """The label as a number, which may be infinite or NaN; none if it is no number."""
    try:
        return float(label)
    except ValueError:
        return None


def numbers_of(labels: Sequence[str]) -> list[float] | None:
    """The labels as numbers, if all of them are finite ones."""
    found = [number for label in labels if (number := number_of(label)) is not None]
    return found if len(found) == len(labels) and all(map(math.isfinite, found)) else None
