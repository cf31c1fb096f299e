"""Evidence as a user gives it: names to labels or indices; inside, integers to integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaai.arguments import checked_count
from deltaai.errors import EvidenceError, did_you_mean, shown
from deltaai.models.variable import StateIndex, Variable

Evidence = Mapping[str, str | int]


def resolve_evidence(
    variables: Sequence[Variable], index: Mapping[str, int], evidence: Evidence | None
) -> dict[int, int]:
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
    resolved: dict[int, int] = {}
    for name, state in (evidence or {}).items():
        variable = number_of(name, index)
        resolved[variable] = variables[variable].index_of(state)
    return dict(sorted(resolved.items()))


def number_of(name: object, index: Mapping[str, int]) -> int:
    """Number of a variable, or an error that says what is wrong with its name."""
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
    variables: Sequence[Variable], observed: Mapping[int, int]
) -> dict[str, StateIndex]:
    """Turn numbers back into evidence, in a form that no label can make ambiguous."""
    if not isinstance(observed, Mapping):
        raise EvidenceError(f"observed is {shown(observed)}: give numbers of variables and states")
    found = {}
    for variable, state in observed.items():
        number = checked_count("the number of a variable", variable, 0, len(variables) - 1)
        most = len(variables[number].states) - 1
        name = variables[number].name
        found[name] = StateIndex(checked_count(f"the state of {name!r}", state, 0, most))
    return found
