"""Checks of what a user passes to the zoo: sizes that could be built, and scales."""

from __future__ import annotations

import math
import operator

from deltaai.budget import Budget
from deltaai.errors import ModelError, shown

MOST_VARIABLES = 10**8  # more is a slip of the hand: their names alone would fill any memory
_MOST_SCALE = 1e9  # logarithms a thousand times as large still have digits left
MOST_SIDE = 10**4  # of a square
_ALWAYS_FITS = 2**20  # bytes: not worth asking the system for


def checked_count(
    name: str, value: int, least: int, why: str = "", most: int = MOST_VARIABLES
) -> int:
    """Return an integer that is at least ``least`` and not absurd, or refuse it by name.

    >>> checked_count("side", 3, least=1)
    3
    """
    remedy = f" ({why})" if why else ""
    try:
        count = operator.index(value)
    except TypeError:
        raise ModelError(f"{name} must be an integer, not {shown(value)}") from None
    if isinstance(value, bool) or count < least:
        given = shown(value)
        raise ModelError(f"{name} must be an integer of at least {least}{remedy}, not {given}")
    if count > most:
        raise ModelError(f"{name} must be an integer of at most {most}, not {shown(value)}")
    return count


def refuse_large(num_entries: int) -> None:
    """Refuse tables that do not fit into memory, before they are made."""
    num_bytes = 8 * num_entries
    if num_bytes > _ALWAYS_FITS:
        Budget.of().refuse("the tables of this model", num_bytes, "ask for fewer states")


def checked_scale(name: str, value: float) -> float:
    """Return a finite number that is not negative, or refuse it by name."""
    try:
        scale = float(value)
    except (
        TypeError,
        ValueError,
        OverflowError,
        RuntimeError,
    ):  # torch's own, of what is no number
        raise ModelError(f"{name} must be a number, not {shown(value)}") from None
    if not math.isfinite(scale) or scale < 0:
        raise ModelError(f"{name} must be finite and not negative, not {shown(value)}")
    if scale > _MOST_SCALE:
        raise ModelError(f"{name} must be at most {_MOST_SCALE:g}, not {shown(value)}")
    return scale
