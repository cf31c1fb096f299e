"""Evidence as a user gives it: names to labels or indices; inside, integers to integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaai.errors import EvidenceError, did_you_mean
from deltaai.models.variable import Variable

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
    resolved: dict[int, int] = {}
    for name, state in (evidence or {}).items():
        if name not in index:
            raise EvidenceError(f"no variable {name!r} in the model{did_you_mean(name, index)}")
        resolved[index[name]] = variables[index[name]].index_of(state)
    return dict(sorted(resolved.items()))
