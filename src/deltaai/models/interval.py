"""Where a real variable may lie: a box, a half-line, or the whole line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deltaai.errors import ModelError, shown


@dataclass(frozen=True, slots=True, init=False)
class Interval:
    """All real numbers from ``low`` to ``high``, either of which may be infinite.

    Examples
    --------
    >>> Interval(-1, 1).is_box, Interval(0).is_half_line, Interval().is_line
    (True, True, True)
    >>> Interval(1, -1)
    Traceback (most recent call last):
    ...
    deltaai.errors.ModelError: a support from 1.0 to -1.0 holds no numbers: give the lower end first
    """

    low: float
    high: float

    def __init__(self, low: float | int = -math.inf, high: float | int = math.inf) -> None:
        ends = []
        for end in (low, high):
            try:
                ends.append(float(end))
            except (TypeError, ValueError, OverflowError):
                raise ModelError(
                    f"a support is from one number to another, not to {shown(end)}"
                ) from None
        if any(map(math.isnan, ends)):
            raise ModelError(f"a support from {ends[0]} to {ends[1]} has an end that is no number")
        if not ends[0] < ends[1]:
            raise ModelError(
                f"a support from {ends[0]} to {ends[1]} holds no numbers: give the lower end first"
            )
        object.__setattr__(self, "low", ends[0])
        object.__setattr__(self, "high", ends[1])

    @classmethod
    def of(cls, support: Any) -> Interval:  # noqa: ANN401
        """The interval that a user may mean: one of these, a pair of ends, or ``"line"``.

        ``None`` as an end is no end: ``(0, None)`` are the positive numbers.

        >>> Interval.of((0, None))
        Interval(low=0.0, high=inf)
        """
        if isinstance(support, Interval):
            return support
        if isinstance(support, str) and support == "line":
            return cls()
        if isinstance(support, tuple | list) and len(support) == 2:
            low, high = support
            return cls(-math.inf if low is None else low, math.inf if high is None else high)
        raise ModelError(
            f'a support is "line" or a pair of ends, such as (-1, 1) or (0, None), not '
            f"{shown(support)}"
        )

    @property
    def is_box(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def is_line(self) -> bool:
        """Whether neither end is finite."""
        return math.isinf(self.low) and math.isinf(self.high)

    @property
    def is_half_line(self) -> bool:
        """Whether one end is finite."""
        return not (self.is_box or self.is_line)

    def contains(self, values: Float[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Whether each value is a finite number inside; the ends belong to it."""
        return (values >= self.low) & (values <= self.high) & torch.isfinite(values)

    def __str__(self) -> str:
        if self.is_line:
            return "any number"
        if self.is_box:
            return f"a number from {self.low:g} to {self.high:g}"
        return (
            f"a number from {self.low:g} on"
            if self.high > 0 and self.low > -math.inf
            else (f"a number up to {self.high:g}")
        )
