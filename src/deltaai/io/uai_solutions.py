"""UAI solution files: log10 Z (``.PR``) and the marginals of all variables (``.MAR``).

    PR                      MAR
    169.408                 2  2 0.7 0.3  3 0.2 0.2 0.6

The name of the task comes first; a file may hold several solutions, each behind ``-BEGIN-``, of
which the last counts; and the older form of ``.MAR`` says before the marginals how many samples of
evidence they answer, which must be one. Line breaks are not reliable. Marginals stand in the order
of the variables, each behind its number of states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64

from deltaai.io.source import Source, excerpt
from deltaai.models import FactorGraph

_BEGIN = "-BEGIN-"
_ROUNDED = 1e-6  # how far beyond 0 and 1 what was rounded may lie
Row = Float64[np.ndarray, "state"]


def parse_log10_partition(source: Source) -> float:
    """Read log10 Z; it is -inf where no state is possible."""
    words, first = _solution(source, "PR")
    if len(words) != 1:
        raise source.error_at_word(first, f"expected one number, log10 Z, found {len(words)} words")
    value = _number(source, words[0], first)
    if math.isnan(value) or value == math.inf:
        raise source.error_at_word(first, f"expected log10 Z, found {excerpt(words[0])}")
    return value


def parse_marginals(source: Source, model: FactorGraph) -> tuple[Row, ...]:
    """Read the marginals of all variables of a model.

    Parameters
    ----------
    source : the text.
    model : says how many variables there are, and their states.
    """
    words, first = _solution(source, "MAR")
    sizes: list[int] = model.num_states.tolist()
    expected = 1 + sum(1 + size for size in sizes)
    if len(words) == expected + 1 and words[0] == "1":  # one sample of evidence
        words, first = words[1:], first + 1
    if len(words) != expected or words[0] != str(len(sizes)):
        raise source.error_at_word(
            first,
            f"the marginals of {len(sizes)} variables with {sum(sizes)} states in all are "
            f"{expected} numbers, of which the first is {len(sizes)}; found {len(words)}, of which "
            f"the first is {excerpt(words[0] if words else '')}: is this the solution of another "
            "model?",
        )
    place, rows = 1, []
    for variable, size in zip(model.variables, sizes, strict=True):
        if words[place] != str(size):
            raise source.error_at_word(
                first + place,
                f"variable {variable.name!r} has {size} states, found {excerpt(words[place])}",
            )
        at = range(place + 1, place + 1 + size)
        row = np.array([_number(source, words[k], first + k) for k in at])
        if not ((row >= -_ROUNDED) & (row <= 1 + _ROUNDED)).all():
            raise source.error_at_word(
                first + place + 1,
                f"the marginal of {variable.name!r} is {row.tolist()}: give probabilities",
            )
        rows.append(row.clip(0.0, 1.0))
        place += 1 + size
    return tuple(rows)


def log10_partition_text(log10_partition: float) -> str:
    r"""Write log10 Z.

    >>> log10_partition_text(-0.25)
    'PR\n-0.25\n'
    """
    return f"PR\n{float(log10_partition)!r}\n"


def marginals_text(rows: Iterable[Sequence[float] | Row]) -> str:
    r"""Write the marginals of all variables.

    >>> marginals_text([[0.25, 0.75], [1.0]])
    'MAR\n2 2 0.25 0.75 1 1.0\n'
    """
    parts = [f"{len(row)} {' '.join(repr(float(value)) for value in row)}" for row in rows]
    return f"MAR\n{' '.join([str(len(parts)), *parts])}\n"


def _solution(source: Source, task: str) -> tuple[list[str], int]:
    """The words of the last solution, and which word of the file comes first."""
    words = source.words()
    begin = 1 if words and words[0] == task else 0
    if begin == 0 and words and words[0].isalpha():
        raise source.error_at_word(0, f"expected a solution of {task}, found {excerpt(words[0])}")
    if _BEGIN in words:
        begin = len(words) - words[::-1].index(_BEGIN)
    if begin >= len(words):
        raise source.error_at_end("the file holds no solution")
    return words[begin:], begin


def _number(source: Source, word: str, place: int) -> float:
    try:
        return float(word)
    except ValueError:
        raise source.error_at_word(place, f"expected a number, found {excerpt(word)}") from None
