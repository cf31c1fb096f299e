"""Plain values that users pass, checked in one place: counts, numbers, seeds, bytes.

Numbers of numpy are numbers here, truth values are not. What is refused is named, shown, and said
what it should be. What a value means, and whether there is enough of it, is decided elsewhere.
"""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import Any

from deltaai.errors import ConfigError, Setting

MOST_SAMPLES = 10**9  # more is a slip of the hand: their states alone would fill any memory
_MOST_BYTES = 2.0**100
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def checked_count(
    name: str,
    value: Any,  # noqa: ANN401
    least: int = 0,
    most: int | None = None,
) -> int:
    """A whole number within bounds.

    >>> checked_count("steps", 20)
    20
    >>> checked_count("steps", 2.5)
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: steps is 2.5; it must be a whole number, at least 0
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and least <= (count := int(value)) and (most is None or count <= most):
        return count
    upper = "" if most is None else f" and at most {most}"
    raise ConfigError(
        Setting(name), f" is {value!r}; it must be a whole number, at least {least}{upper}"
    )


def checked_seed(seed: Any) -> int:  # noqa: ANN401
    """A seed that both torch and numpy take.

    >>> checked_seed(-1)
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: seed is -1: it must be a whole number from 0 to 2^63 - 1
    """
    is_whole = isinstance(seed, Integral) and not isinstance(seed, bool)
    if not is_whole or not 0 <= int(seed) < 2**63:
        raise ConfigError(
            Setting("seed"), f" is {seed!r}: it must be a whole number from 0 to 2^63 - 1"
        )
    return int(seed)


def checked_samples(num_samples: Any, least: int = 1) -> int:  # noqa: ANN401
    """A number of samples that someone could mean."""
    return checked_count("num_samples", num_samples, least, MOST_SAMPLES)


def checked_number(
    name: str,
    value: Any,  # noqa: ANN401
    highest: int | None = None,
    *,
    is_zero_allowed: bool = False,
) -> float:
    """A finite number above zero, or from zero on.

    >>> checked_number("time_limit", 60)
    60.0
    >>> checked_number("time_limit", float("nan"))
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: time_limit is nan; it must be a finite number above 0
    """
    if is_finite(value) and (value > 0 or (is_zero_allowed and value == 0)):
        number = float(value)
        if highest is None or number <= highest:
            return number
    lower = "at least 0" if is_zero_allowed else "above 0"
    upper = "" if highest is None else f" and at most {highest}"
    raise ConfigError(Setting(name), f" is {value!r}; it must be a finite number {lower}{upper}")


def checked_seconds(time_limit: Any) -> float | None:  # noqa: ANN401
    """A limit of time, or none."""
    return None if time_limit is None else checked_number("time_limit", time_limit)


def checked_bytes(memory_limit: Any) -> int | None:  # noqa: ANN401
    """A limit of memory: a number of bytes, or a text such as ``4GB``; or none.

    >>> checked_bytes(1000), checked_bytes("2 GiB"), checked_bytes(4e9), checked_bytes(None)
    (1000, 2147483648, 4000000000, None)
    """
    if memory_limit is None:
        return None
    if isinstance(memory_limit, str):
        return parse_bytes(memory_limit)
    if is_finite(memory_limit) and 1 <= memory_limit < _MOST_BYTES:
        return int(memory_limit)
    raise ConfigError(
        Setting("memory_limit"),
        f" is {memory_limit!r}; it must be a number of bytes, at least 1, or a text such as '4GB'",
    )


def parse_bytes(text: str) -> int:
    """Read an amount of memory such as ``4GB``, ``512 MiB`` or ``1000000``.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes("1000")
    (4294967296, 1572864, 1000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower(), re.ASCII)
    if match is None or not 0 < float(match[1]) < _MOST_BYTES:
        raise ConfigError(f"{text!r} is not an amount of memory: write for example 4GB or 512MB")
    return int(float(match[1]) * _UNITS[match[2]])


def is_finite(value: object) -> bool:
    """Whether it is a number a float can hold (truth values are not, though Python counts them)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large
        return False
