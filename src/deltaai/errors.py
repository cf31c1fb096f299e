"""Every error the library raises on purpose.

One hierarchy, so that a caller can catch :class:`DeltaAIError` and nothing else. A message says
what is wrong, where, the offending value, and what to do about it. This file holds no logic but
the wording of errors that carry figures.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """A setting that a message mentions, by its name in Python; the command line has another.

    Parameters
    ----------
    name : of the argument or field.
    value : what the message advises, if anything.

    Examples
    --------
    >>> str(Setting("orders")), str(Setting("orders", "many"))
    ('orders', "orders='many'")
    """

    name: str
    value: str | float | int | bool | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class DeltaAIError(Exception):
    """Base of every error raised on purpose by ``deltaai``.

    Its arguments are the parts of its message, in order: texts, and settings that are mentioned.

    Examples
    --------
    >>> error = DeltaAIError("sub-DAGs need random orders: choose ", Setting("orders", "many"))
    >>> str(error), error.worded(lambda setting: f"--{setting.name} {setting.value}")
    ("sub-DAGs need random orders: choose orders='many'",
     'sub-DAGs need random orders: choose --orders many')
    """

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, spelled: Callable[[Setting], str]) -> str:
        """The message on one line, with settings as somebody knows them."""
        text = "".join(
            spelled(part) if isinstance(part, Setting) else str(part) for part in self.args
        )
        return text if text.isprintable() else one_line(text, longest=3000)


class ModelError(DeltaAIError, ValueError):
    """A model, factor or variable that cannot be: wrong shape, NaN, duplicate name and so on."""


class StateError(DeltaAIError, ValueError):
    """States of the wrong shape or type, or with a value outside a variable's states."""


class GraphError(DeltaAIError, ValueError):
    """A graph, order or DAG that is not what it must be."""


class EvidenceError(DeltaAIError, ValueError):
    """Evidence about an unknown variable or an unknown state."""


class ImpossibleEvidenceError(EvidenceError):
    """The evidence (or the model itself) has probability zero, so there is no answer."""


class TrainingError(DeltaAIError, RuntimeError):
    """Training that cannot go on: a loss that is not finite, a checkpoint of another run."""


class ConversionError(DeltaAIError, ValueError):
    """A model of another library, or for another format, that cannot be converted faithfully."""


class ConfigError(DeltaAIError, ValueError):
    """A setting that is unknown, of the wrong type, out of range, or at odds with another."""


class WeightError(DeltaAIError, ValueError):
    """Log importance weights that are no weights: NaN, plus infinity, none, or all zero."""


class OutputError(DeltaAIError):
    """A file or stream that cannot be written, though nothing was wrong with what was asked."""


class FormatError(DeltaAIError, ValueError):
    """A file that does not follow its format.

    Parameters
    ----------
    path : the file, or a label such as ``"<string>"``.
    line : line number counted from one, or ``None`` when no line is to blame.
    message : what was found and what was expected.
    """

    def __init__(self, path: str | Path, line: int | None, message: str) -> None:
        self.path = str(path)
        self.line = line
        self.message = message
        where = self.path if line is None else f"{self.path}, line {line}"
        super().__init__(f"{where}: {message}")

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str]]:
        return type(self), (self.path, self.line, self.message)  # so that it crosses processes


class NotAffordableError(DeltaAIError):
    """A question for which no method is within the limits of memory and time."""


class TimeLimitError(NotAffordableError):
    """Work that was stopped because its time was over.

    Parameters
    ----------
    what : what was not ready.
    time_limit : seconds that it might take.
    """

    def __init__(self, what: str, time_limit: float | int) -> None:
        self.what = what
        self.time_limit = time_limit
        super().__init__(
            f"the time limit of {time_limit:g} s ended before {what} was ready; raise it, or ask "
            "for less"
        )

    def __reduce__(self) -> tuple[type, tuple[str, float | int]]:
        return type(self), (self.what, self.time_limit)


class MemoryLimitError(NotAffordableError, MemoryError):
    """An exact computation whose tables would not fit, refused before anything is allocated.

    Parameters
    ----------
    width : largest number of neighbours of a variable when it is eliminated.
    predicted_bytes : peak memory the computation would need.
    limit_bytes : what it may use.
    """

    def __init__(self, width: int, predicted_bytes: int, limit_bytes: int) -> None:
        self.width = width
        self.predicted_bytes = predicted_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"exact inference needs about {format_bytes(predicted_bytes)} (induced width {width}) "
            f"and the memory limit is {format_bytes(limit_bytes)}; raise the limit if the machine "
            "has more, add evidence that cuts the model, or use an approximate method"
        )

    def __reduce__(self) -> tuple[type, tuple[int, int, int]]:
        return type(self), (self.width, self.predicted_bytes, self.limit_bytes)


def format_bytes(num_bytes: int | float) -> str:
    """Write a number of bytes for people, however large.

    >>> format_bytes(1536), format_bytes(3.2e9), format_bytes(2**90), format_bytes(2**5000)
    ('1.5 KiB', '3.0 GiB', '1.2e+18 GiB', '1.3e+1496 GiB')
    """
    if num_bytes >= 2**50:
        return f"{scientific(int(num_bytes) >> 30)} GiB"
    if num_bytes < 1024:
        return f"{num_bytes:.0f} B"
    units = ("KiB", "MiB", "GiB")
    power = min(int(math.log2(num_bytes) // 10), len(units))
    return f"{num_bytes / 1024**power:,.1f} {units[power - 1]}"


def format_seconds(seconds: float | int) -> str:
    """Write a rough time for people.

    >>> format_seconds(0.0012), format_seconds(42.0), format_seconds(4000), format_seconds(1e9)
    ('0.01 s', '42 s', '67 min', '32 years')
    """
    if seconds < 0.01:
        return "0.01 s"
    for unit, size, most in (("s", 1, 200), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / size:.{2 if seconds < 1 else 0}f} {unit}"
    if seconds < 2 * 365 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    years = seconds / (365 * 86_400)
    return f"{years:.0f} years" if years < 10_000 else f"{years:.0e} years"


def scientific(number: int) -> str:
    """Write a positive whole number that may be too large for floating point.

    >>> scientific(123456789), scientific(10**400)
    ('1.2e+08', '1.0e+400')
    """
    exponent = math.floor(math.log10(number) + 1e-9)
    return f"{10 ** (math.log10(number) - exponent):.1f}e+{exponent:02d}"


def one_line(message: object, longest: int = 1000) -> str:
    r"""Write a message on one line, without its middle when it is long.

    What stands in a file may end up in a message: line breaks of all kinds, codes that a terminal
    obeys, names of any length.

    >>> one_line("two\nlines"), one_line("no state \x1b[31m"), one_line("a" * 50, longest=9)
    ('two lines', 'no state \\x1b[31m', 'aaaa ... aaaa')
    """
    words = " ".join(str(message).split())
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)
    half = longest // 2
    return plain if len(plain) <= longest else f"{plain[:half]} ... {plain[-half:]}"


def shown(value: object, longest: int = 80) -> str:
    """A value as a message shows it: on one line, without its middle, whatever it is.

    >>> shown("rain"), shown([1, 2]), shown(list(range(100)), longest=20)
    ("'rain'", '[1, 2]', '[0, 1, 2,  ... 7, 98, 99]')
    >>> shown(10**5000)
    'a whole number of more than 4300 digits'
    """
    try:
        return one_line(repr(value), longest)
    except Exception:  # a stranger's object, or a number that Python does not write out
        if isinstance(value, int):
            return "a whole number of more than 4300 digits"
        return f"a {type(value).__name__}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'rain'?"`` when a known name is close, else an empty string.

    >>> did_you_mean("rian", ["rain", "wet"])
    "; did you mean 'rain'?"
    """
    if not isinstance(name, str):
        return ""
    # Comparing is slow, so it stays with names of about the same length, and not too many.
    similar = (other for other in known if abs(len(other) - len(name)) <= 3)
    close = difflib.get_close_matches(name, list(islice(similar, 2000)), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
