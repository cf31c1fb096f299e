"""Evidence as a user gives it: names to labels or indices; inside, integers to integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaai.errors import EvidenceError, did_you_mean
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
        hint = f": write {str(name)!r}" if str(name) in index else ""
        raise EvidenceError(
            f"{name!r} is no name of a variable: names are strings, not {type(name).__name__}{hint}"
        )
    if name not in index:
        raise EvidenceError(f"no variable {name!r} in the model{did_you_mean(name, index)}")
    return index[name]


def named_evidence(
    variables: Sequence[Variable], observed: Mapping[int, int]
) -> dict[str, StateIndex]:
    """Turn numbers back into evidence, in a form that no label can make ambiguous."""
    return {variables[v].name: StateIndex(state) for v, state in observed.items()}
