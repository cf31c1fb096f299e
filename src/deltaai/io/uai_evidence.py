"""UAI evidence files: which variables were observed, and in which state.

Two headers are in use. The older one begins with the number of samples, then gives each sample as
its number of observations and that many pairs ``variable state``; the newer one leaves the number
of samples out:

    1                       2 0 1 3 0
    2 0 1 3 0

Line breaks are not reliable, so the two are told apart by counting. After a first number ``n`` the
newer header needs exactly ``2 n`` more numbers; it is tried first. Otherwise the first number must
be a number of samples that uses up the file exactly. With one sample the count is even in the
older header and odd in the newer, so no such file fits both. More than one sample is refused: a
model is asked about one set of observations at a time. ``0`` alone means that nothing was
observed; a file without any number is refused, because a truncated file must not pass for that.
"""

from __future__ import annotations

from deltaai.io.source import Source, excerpt
from deltaai.models import FactorGraph, StateIndex


def parse_evidence(source: Source, model: FactorGraph | None = None) -> dict[str, StateIndex]:
    """Read observations from the text of an evidence file.

    Parameters
    ----------
    source : the text.
    model : gives the variables their names and is checked against; without it variable ``i`` is
        called ``x{i}``, as in a model read from a UAI file.
    """
    numbers = _numbers(source)
    begin = _begin_of_observations(source, numbers)
    evidence: dict[str, StateIndex] = {}
    for place in range(begin, len(numbers), 2):
        variable, state = numbers[place : place + 2]
        name = f"x{variable}"
        if model is not None:
            if variable >= model.num_variables:
                raise source.error_at_word(
                    place,
                    f"variable {variable} is observed, but the model has variables 0 to "
                    f"{model.num_variables - 1}; is this the evidence of another model?",
                )
            name = model.variables[variable].name
            if model.variables[variable].is_real:
                raise source.error_at_word(
                    place,
                    f"variable {variable} ({name!r}) is real, and evidence files of UAI hold "
                    "states: give a CSV table, or name=value",
                )
            if state >= (num_states := model.variables[variable].num_states):
                raise source.error_at_word(
                    place + 1,
                    f"variable {variable} is observed in state {state}, but its states are 0 to "
                    f"{num_states - 1}",
                )
        if name in evidence:
            raise source.error_at_word(
                place, f"variable {variable} is observed twice; expected one observation"
            )
        evidence[name] = StateIndex(state)
    return evidence


def _numbers(source: Source) -> list[int]:
    words = source.words()
    if not words:
        raise source.error_at_end(
            "the file is empty; expected the number of observations (0 for none)"
        )
    numbers = []
    for place, word in enumerate(words):
        if not (word.isascii() and word.isdigit() and len(word) <= 30):
            raise source.error_at_word(place, f"expected a whole number, found {excerpt(word)}")
        numbers.append(int(word))
    return numbers


def _begin_of_observations(source: Source, numbers: list[int]) -> int:
    """Tell the two headers apart; return the place of the first pair."""
    num_left = len(numbers) - 1
    if num_left == 2 * numbers[0]:
        return 1
    if numbers[0] == 1 and num_left >= 1 and num_left - 1 == 2 * numbers[1]:
        return 2
    if numbers[0] > 1 and _num_words_of_samples(numbers) == len(numbers):
        raise source.error_at_word(
            0, f"the file holds {numbers[0]} samples; expected one: split it into a file a sample"
        )
    raise source.error_at_word(
        0,
        f"{numbers[0]} observations need {2 * numbers[0]} numbers (variable and state of each), "
        f"but {num_left} follow",
    )


def _num_words_of_samples(numbers: list[int]) -> int | None:
    """Number of words if the first is a number of samples, or ``None`` if the file is shorter."""
    place = 1
    for _ in range(min(numbers[0], len(numbers))):
        if place >= len(numbers):
            return None
        place += 1 + 2 * numbers[place]
    return place
