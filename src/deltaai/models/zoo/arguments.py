"""Checks of what a user passes to the zoo."""

from __future__ import annotations

import math
import operator

from deltaai.errors import ModelError


def checked_count(name: str, value: int, least: int, why: str = "") -> int:
    """Return an integer that is at least ``least``, or refuse it by name.

    >>> checked_count("side", 3, least=1)
    3
    """
    remedy = f" ({why})" if why else ""
    try:
        count = operator.index(value)
    except TypeError:
        raise ModelError(f"{name} must be an integer, not {value!r}") from None
    if isinstance(value, bool) or count < least:
        raise ModelError(f"{name} must be an integer of at least {least}{remedy}, not {value!r}")
    return count


def checked_scale(name: str, value: float) -> float:
    """Return a finite number that is not negative, or refuse it by name."""
    try:
        scale = float(value)
    except (TypeError, ValueError):
        raise ModelError(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(scale) or scale < 0:
        raise ModelError(f"{name} must be finite and not negative, not {value!r}")
    return scale
