"""A discrete variable: a name and its labelled states.

Inside the library variables are integers ``0..n-1`` and states are integers ``0..K-1``; names and
labels live here, at the edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral

from deltaai.errors import EvidenceError, ModelError, did_you_mean

_LONGEST_INDEX = 18  # digits; longer ones are no index of anything


@lru_cache(maxsize=256)
def _numbered(num_states: int) -> tuple[str, ...]:
    """Labels ``"0"..."K-1"``, shared by all variables with that many states."""
    return tuple(str(state) for state in range(num_states))


@dataclass(frozen=True, slots=True, init=False)
class Variable:
    """A named variable with one or more labelled states.

    Parameters
    ----------
    name : unique within a model, not empty.
    states : labels of the states, or their number (labels ``"0"``, ``"1"``, ... then).

    Examples
    --------
    >>> Variable("rain", ["no", "yes"]).index_of("yes")
    1
    >>> Variable("spin").states
    ('0', '1')
    """

    name: str
    states: tuple[str, ...]

    def __init__(self, name: str, states: int | Sequence[str] = 2) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"a variable's name must be a non-empty string, not {name!r}")
        if isinstance(states, bool) or not isinstance(states, Integral | Iterable):
            raise ModelError(
                f"the states of variable {name!r} are their number or labels, not {states!r}"
            )
        if isinstance(states, Integral):
            if states < 1:
                raise ModelError(f"variable {name!r} needs at least one state, not {states}")
            labels = _numbered(int(states))
        else:
            labels = tuple(str(label) for label in states)
            if not labels:
                raise ModelError(f"variable {name!r} needs at least one state")
            if len(set(labels)) != len(labels):
                double = Counter(labels).most_common(1)[0][0]
                raise ModelError(f"variable {name!r} has the state {double!r} twice")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "states", labels)

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.states)

    def index_of(self, state: str | int) -> int:
        """Return the index of a state given by its label or its index.

        A string is looked up as a label first and read as an index only if no label matches.
        """
        if isinstance(state, str):
            if state in self.states:
                return self.states.index(state)
            if not state.isascii() or not state.isdigit() or len(state) > _LONGEST_INDEX:
                listed = ", ".join(self.states[:8]) + (", ..." if len(self.states) > 8 else "")
                raise EvidenceError(
                    f"variable {self.name!r} has no state {state!r}"
                    f"{did_you_mean(state, self.states)} (its states: {listed})"
                )
        is_index = isinstance(state, str | Integral) and not isinstance(state, bool)
        if not is_index or not 0 <= (index := int(state)) < len(self.states):
            raise EvidenceError(
                f"variable {self.name!r} has no state {state!r}: "
                f"give a label or an index from 0 to {len(self.states) - 1}"
            )
        return index
