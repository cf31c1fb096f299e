"""Numbers between text and log-tables, so that writing what was read changes nothing.

Files hold values, models hold logarithms. Reading takes ``log`` of the nearest double. Writing
looks for a double whose ``log`` is exactly the stored number: it exists for every number that came
from a file, and otherwise the nearest such number takes its place (it differs in the last bit).
Among the decimals that give it, the shortest is written, so ``0.1`` comes back as ``0.1`` although
``exp(log(0.1))`` prints as ``0.10000000000000002``. Hence the files

    write(model),  write(read(write(model))),  write(read(write(read(write(model))))), ...

are the same byte for byte. The argument needs one and the same logarithm in both directions, which
is why it stands here and nowhere else in this folder. A number too small for a double is zero, as
in any program that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from deltaai.errors import ConversionError
from deltaai.io.source import excerpt
from deltaai.watch import look

Numbers = npt.NDArray[np.float64]

# Doubles tried on each side of exp(l) in the search for one whose logarithm is l.
_NUM_NEIGHBOURS = 3
# Relative to max(1, |l|): room for the last bit, not for the coarse steps below 2e-308.
_TOLERANCE = 1e-15
_WORDS_AT_ONCE = 2**18


class NumberProblem(Exception):
    """A word that should have been a number; the parser that knows the line reports it."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.message = message


def to_numbers(words: Sequence[str]) -> Numbers:
    """Convert words to finite, non-negative numbers, all at once.

    Raises
    ------
    NumberProblem
        With the index of the first word that is none.
    """
    values, is_plain = np.empty(len(words)), True
    try:
        for start in range(0, len(words), _WORDS_AT_ONCE):
            look()
            some = words[start : start + _WORDS_AT_ONCE]
            values[start : start + len(some)] = np.fromiter(map(float, some), np.float64, len(some))
            # float() also takes 1_000 and the digits of other scripts, which no format has.
            together = "".join(some)
            is_plain = is_plain and together.isascii() and "_" not in together
    except ValueError:
        is_plain = False
    if not is_plain:
        index = next(i for i, word in enumerate(words) if not _is_number(word))
        raise NumberProblem(index, f"expected a number, found {excerpt(words[index])}")
    is_fine = np.isfinite(values) & (values >= 0)
    if not is_fine.all():
        index = int(np.argmin(is_fine))
        raise NumberProblem(
            index,
            f"expected a number that is finite and not negative, found {excerpt(words[index])}",
        )
    return values


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word


def logarithms(values: Numbers) -> Numbers:
    """Natural logarithms; ``-inf`` for zero."""
    taken: Numbers = torch.from_numpy(values).log().numpy()
    return taken


def exponentials(log_values: Numbers) -> Numbers:
    """Values whose logarithms are given, to the last bit where such doubles exist.

    Raises
    ------
    ConversionError
        When an exponential is too large or too small for a double.
    """
    values = _doubles_with_logarithm(log_values)
    with np.errstate(invalid="ignore"):
        error = np.abs(logarithms(values) - log_values)
    is_kept = (error <= _TOLERANCE * np.maximum(1.0, np.abs(log_values))) | (log_values == -np.inf)
    if not is_kept.all():
        raise ConversionError(
            f"the log-value {log_values[~is_kept][0]} cannot be written: its exponential does not "
            "fit in a double (2e-308 to 2e308); add a constant to the log-table to bring it there"
        )
    return values


def to_decimals(log_values: Numbers) -> list[str]:
    """Write the exponentials of log-values in as few digits as give the same log-values back.

    >>> to_decimals(logarithms(np.array([0.1, 0.0, 1.0, 2.5e-7])))
    ['0.1', '0.0', '1.0', '2.5e-07']

    Raises
    ------
    ConversionError
        When an exponential is too large or too small for a double.
    """
    distinct, where = np.unique(log_values, return_inverse=True)
    # From here on only `attainable` matters, so that a second writing makes the same choices.
    attainable = logarithms(exponentials(distinct))
    values = _doubles_with_logarithm(attainable)
    texts = np.full(distinct.shape, "", dtype=object)
    remaining = np.arange(len(values))
    for num_digits in range(1, 18):
        rounded = np.array([float(f"{value:.{num_digits}g}") for value in values[remaining]])
        is_enough = logarithms(rounded) == attainable[remaining]
        texts[remaining[is_enough]] = [repr(value) for value in rounded[is_enough].tolist()]
        remaining = remaining[~is_enough]
        if len(remaining) == 0:
            break
    chosen: list[str] = texts[where].tolist()
    return chosen


def _doubles_with_logarithm(log_values: Numbers) -> Numbers:
    """Doubles whose logarithms are nearest to given ones."""
    with np.errstate(over="ignore"):
        nearby = [np.exp(log_values)]
    for direction in (np.inf, 0.0):
        step = nearby[0]
        for _ in range(_NUM_NEIGHBOURS):
            step = np.nextafter(step, direction)
            nearby.append(step)
    candidates = np.stack(nearby)
    with np.errstate(invalid="ignore"):
        distance = np.abs(logarithms(candidates.ravel()).reshape(candidates.shape) - log_values)
    distance[np.isnan(distance)] = np.inf  # so that zero, tried first, is chosen for -inf
    best: Numbers = np.take_along_axis(candidates, distance.argmin(0)[None], 0)[0]
    return best
