"""What users pass, checked in one place: counts, numbers, seeds, bytes, choices, paths, objects.

Numbers of numpy are numbers here, truth values are not. What is refused is named, shown, and said
what it should be. What a value means, and whether there is enough of it, is decided elsewhere.
Every public call looks at its arguments with these, before anything is computed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from deltaai.errors import ConfigError, DeltaAIError, Setting, did_you_mean, shown

Kind = TypeVar("Kind")

MOST_COUNT = 2**53  # more is a slip of the hand, and no number that a tensor could have of anything
MOST_SAMPLES = 10**9  # more is a slip of the hand: their states alone would fill any memory
_MOST_BYTES = 2.0**100
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def checked_count(
    name: str,
    value: Any,  # noqa: ANN401
    least: int = 0,
    most: int = MOST_COUNT,
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
    if is_whole and least <= (count := int(value)) <= most:
        return count
    is_named = most < MOST_COUNT or (is_whole and value > most)
    upper = f" and at most {most}" if is_named else ""
    raise ConfigError(
        Setting(name), f" is {shown(value)}; it must be a whole number, at least {least}{upper}"
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
            Setting("seed"), f" is {shown(seed)}: it must be a whole number from 0 to 2^63 - 1"
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
    raise ConfigError(
        Setting(name), f" is {shown(value)}; it must be a finite number {lower}{upper}"
    )


def checked_bound(name: str, value: Any) -> float:  # noqa: ANN401
    """A number of any sign, or an infinite one; not NaN."""
    if is_finite(value) or (isinstance(value, float) and math.isinf(value)):
        return float(value)
    raise ConfigError(Setting(name), f" is {shown(value)}; it must be a number")


def checked_seconds(time_limit: Any) -> float | None:  # noqa: ANN401
    """A limit of time, or none."""
    return None if time_limit is None else checked_number("time_limit", time_limit)


def checked_bytes(memory_limit: Any, name: str = "memory_limit") -> int | None:  # noqa: ANN401
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
        Setting(name),
        f" is {shown(memory_limit)}; it must be a number of bytes, at least 1, or a text such as "
        "'4GB'",
    )


def parse_bytes(text: str) -> int:
    """Read an amount of memory such as ``4GB``, ``512 MiB`` or ``1000000``.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes("1000")
    (4294967296, 1572864, 1000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower(), re.ASCII)
    if match is None or not 0 < float(match[1]) < _MOST_BYTES:
        raise ConfigError(
            f"{shown(text)} is not an amount of memory: write for example 4GB or 512MB"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def is_finite(value: object) -> bool:
    """Whether it is a number a float can hold (truth values are not, though Python counts them)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large
        return False


def checked_flag(name: str, value: Any) -> bool:  # noqa: ANN401
    """True or false, also as numpy has them; nothing else stands for either.

    >>> checked_flag("resume", "no")
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: resume is 'no'; it must be True or False
    """
    if isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}:  # of numpy
        return bool(value)
    raise ConfigError(Setting(name), f" is {shown(value)}; it must be True or False")


def checked_choice(name: str, value: Any, choices: Sequence[str]) -> str:  # noqa: ANN401
    """One of some words.

    >>> checked_choice("orders", "Many", ["one", "many"])
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: orders is 'Many'; did you mean 'many'? One of one, many
    """
    if isinstance(value, str) and value in choices:
        return value
    guess = did_you_mean(value, choices)
    listed = f"{guess} One of " if guess else "; one of "
    raise ConfigError(Setting(name), f" is {shown(value)}{listed}{', '.join(choices)}")


def checked_path(path: Any, name: str = "path") -> Path:  # noqa: ANN401
    """The path of a file, whose name may be anything that the system allows.

    >>> checked_path(3)
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: path is 3; it must be the path of a file, a text or a Path
    """
    if isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str) and str(path):
        return Path(path)
    raise ConfigError(
        Setting(name), f" is {shown(path)}; it must be the path of a file, a text or a Path"
    )


def checked_object(
    name: str,
    value: Any,  # noqa: ANN401
    kind: type[Kind],
    remedy: str,
    error: type[DeltaAIError] = ConfigError,
) -> Kind:
    """An object of a class; the remedy says where to get one.

    >>> checked_object("dag", 3, dict, "take one of random_order")
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: dag is 3; it must be a dict: take one of random_order
    """
    if isinstance(value, kind):
        return value
    raise error(Setting(name), f" is {shown(value)}; it must be a {kind.__name__}: {remedy}")


def checked_function(name: str, value: Any) -> Callable[..., Any] | None:  # noqa: ANN401
    """Something to call, or nothing."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    raise ConfigError(Setting(name), f" is {shown(value)}; it must be a function, or None")


def checked_items(
    name: str,
    value: Any,  # noqa: ANN401
    of_what: str,
    error: type[DeltaAIError] = ConfigError,
) -> tuple[Any, ...]:
    """What stands in a list, or in anything like one that is not a text or a mapping.

    >>> checked_items("of", "rain", "names")
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: of is 'rain': give a list of names
    """
    is_other = isinstance(value, str | bytes | Mapping | type)
    if isinstance(value, Iterable) and not is_other and getattr(value, "ndim", 1) != 0:
        return tuple(value)
    raise error(Setting(name), f" is {shown(value)}: give a list of {of_what}")
