"""Evidence as a user gives it: names to labels, indices or numbers; inside, numbers to numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from deltaai.arguments import checked_count
from deltaai.errors import EvidenceError, did_you_mean, shown
from deltaai.models.variable import StateIndex, Variable

Evidence = Mapping[str, Any]  # a label, an index, a number, or the coordinates of a vector

Number = TypeVar("Number")


def resolve_evidence(
    variables: Sequence[Variable],
    places: Mapping[str, Sequence[int]],
    evidence: Evidence | None,
) -> dict[int, Any]:
    """Turn names and labels into numbers, in the order of the variables.

    Raises
    ------
    EvidenceError
        For a variable or a state the model does not have.
    """
    if evidence is not None and not isinstance(evidence, Mapping):
        raise EvidenceError(
            f"evidence is a {type(evidence).__name__}: give names and states, such as "
            "{'rain': 'yes'}"
        )
    resolved: dict[int, int | float] = {}
    for name, value in (evidence or {}).items():
        numbers = number_of(name, places)
        if len(numbers) > 1:
            given = zip(numbers, _coordinates(name, value, len(numbers)), strict=True)
        else:
            given = zip(numbers, (value,), strict=True)
        for variable, each in given:
            if variable in resolved:
                raise EvidenceError(
                    f"{variables[variable].name!r} is given twice: by its own name and by "
                    f"{variables[variable].node!r}"
                )
            resolved[variable] = variables[variable].value_of(each)
    return dict(sorted(resolved.items()))


def _coordinates(name: str, value: object, count: int) -> list[Any]:
    """The coordinates of a vector, one value each."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple) or len(value) != count:
        raise EvidenceError(
            f"{name!r} is a vector: give its {count} coordinates in a list, or one as "
            f"{f'{name}[0]'!r}, not {shown(value)}"
        )
    return list(value)


def number_of(name: object, index: Mapping[str, Number]) -> Number:
    """What stands for a variable's name, or an error that says what is wrong with it."""
    if not isinstance(name, str):
        given = shown(name)
        hint = f": write {given!r}" if given in index else ""
        raise EvidenceError(
            f"{given} is no name of a variable: names are strings, not {type(name).__name__}{hint}"
        )
    if name not in index:
        raise EvidenceError(f"no variable {shown(name)} in the model{did_you_mean(name, index)}")
    return index[name]


def named_evidence(
    variables: Sequence[Variable], observed: Mapping[int, int | float]
) -> dict[str, StateIndex | float]:
    """Turn numbers back into evidence, in a form that no label can make ambiguous."""
    if not isinstance(observed, Mapping):
        raise EvidenceError(f"observed is {shown(observed)}: give numbers of variables and states")
    found: dict[str, StateIndex | float] = {}
    for variable, state in observed.items():
        number = checked_count("the number of a variable", variable, 0, len(variables) - 1)
        if variables[number].is_real:
            found[variables[number].name] = variables[number].value_of(state)
            continue
        most = len(variables[number].states) - 1
        name = variables[number].name
        found[name] = StateIndex(checked_count(f"the state of {name!r}", state, 0, most))
    return found
