"""A variable: a name, and its labelled states or the real numbers that it may be.

Inside the library variables are integers ``0..n-1`` and states are integers ``0..K-1``; names and
labels live here, at the edges. One place, :meth:`Variable.index_of`, says what a value that stands
for a state means, wherever it comes from (a mapping, a table, a file, the command line):

- a value whose text is a label is that label: ``"yes"``, ``"1"``, ``True`` for ``"True"``;
- ``"#1"`` is the index 1, and so is ``StateIndex(1)``, which nothing can misread;
- a whole number is an index, unless it is also the text of another state's label. Of labels
  ``"1", "2", "3"`` the number 1 has two readings, so it is refused;
- digits in a text are an index where no label is a number, and refused where one is;
- where labels are ranges of numbers, from ``<2`` to ``>=5``, a number is refused as well: it may be
  an index, or lie in a range.

A real variable has a support (:class:`~deltaai.models.interval.Interval`) in place of states, and
perhaps several dimensions: a model lays such a vector out as one variable for each coordinate.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

from deltaai.arguments import checked_count
from deltaai.errors import EvidenceError, ModelError, did_you_mean, shown
from deltaai.models.interval import Interval

INDEX_MARK = "#"  # before a number it says that an index is meant
_DEFAULT_STATES = 2
MOST_STATES = 2**24  # more is a slip of the hand, and their labels alone would fill the memory
_LONGEST_INDEX = 18  # digits; longer ones are no index of anything
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
_LOWEST, _HIGHEST = (re.compile(rf"{sign}[+-]?\d[\d.e+-]*", re.ASCII) for sign in ("<", ">="))


class StateIndex(int):
    """The number of a state, counted from 0: an index that is never read as a label.

    >>> Variable("grade", ["1", "2", "3"]).index_of(StateIndex(1))
    1
    """

    __slots__ = ()


@lru_cache(maxsize=256)
def _numbered(num_states: int) -> tuple[str, ...]:
    """Labels ``"0"..."K-1"``, shared by all variables with that many states."""
    return tuple(str(state) for state in range(num_states))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Variable:
    """A named variable with one or more labelled states, or a real one.

    Parameters
    ----------
    name : unique within a model, not empty.
    states : labels of the states, or their number (labels ``"0"``, ``"1"``, ... then); two if
        nothing is said.
    support : of a real variable, which has no states: ``"line"``, or the ends of an interval, such
        as ``(-1, 1)`` or ``(0, None)``.
    dimension : coordinates of a real variable; more than one make it a vector.

    Examples
    --------
    >>> Variable("rain", ["no", "yes"]).index_of("yes")
    1
    >>> Variable("spin").states
    ('0', '1')
    >>> [each.name for each in Variable("elbow", support=(-1, 1), dimension=2).coordinates]
    ['elbow[0]', 'elbow[1]']
    """

    name: str
    states: tuple[str, ...]
    support: Interval | None
    dimension: int
    node: str

    def __init__(
        self,
        name: str,
        states: int | Sequence[str] = _DEFAULT_STATES,
        *,
        support: Any = None,  # noqa: ANN401  an Interval, a pair of ends, or "line"
        dimension: int = 1,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"a variable's name must be a non-empty string, not {shown(name)}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "node", name)
        dimension = checked_count(f"the dimension of variable {name!r}", dimension, 1, MOST_STATES)
        object.__setattr__(self, "dimension", dimension)
        if support is not None:
            if states is not _DEFAULT_STATES:
                raise ModelError(f"variable {name!r} has states or a support, not both")
            try:
                found = Interval.of(support)
            except ModelError as error:
                raise ModelError(f"variable {name!r}: {error}") from None
            object.__setattr__(self, "support", found)
            object.__setattr__(self, "states", ())
            return
        if dimension != 1:
            raise ModelError(
                f"variable {name!r} has states and dimension {dimension}: only real variables, "
                "which have a support, may be vectors"
            )
        object.__setattr__(self, "support", None)
        object.__setattr__(self, "states", _labels(name, states))

    @property
    def is_real(self) -> bool:
        """Whether it is a real number, or a vector of some, and so has no states."""
        return self.support is not None

    @property
    def coordinates(self) -> tuple[Variable, ...]:
        """Itself, or a variable for each coordinate of a vector."""
        if self.dimension == 1:
            return (self,)
        names = (f"{self.name}[{number}]" for number in range(self.dimension))
        return tuple(coordinate(Variable(name, support=self.support), self.name) for name in names)

    def __repr__(self) -> str:
        if self.support is None:
            return f"Variable(name={self.name!r}, states={self.states!r})"
        vector = f", dimension={self.dimension}" if self.dimension > 1 else ""
        ends = (self.support.low, self.support.high)
        return f"Variable(name={self.name!r}, support={ends}{vector})"

    @property
    def num_states(self) -> int:
        """Number of states; none if it is real."""
        return len(self.states)

    def value_of(self, value: object) -> int | float:
        """What a value stands for: the index of a state, or a number of the support.

        Raises
        ------
        EvidenceError
            For what is no state, or no number that the variable may be.

        Examples
        --------
        >>> Variable("height", support=(0, None)).value_of("1.8")
        1.8
        """
        if self.support is None:
            return self.index_of(value)
        value = _plain(value)
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise EvidenceError(
                f"variable {self.name!r} is {self.support}, not {shown(value)}"
            ) from None
        if not math.isfinite(number) or not self.support.low <= number <= self.support.high:
            raise EvidenceError(f"variable {self.name!r} is {self.support}, not {shown(value)}")
        return number

    def text_of(self, value: int | float) -> str:
        """A value as a person reads it: the label of a state, or the number."""
        plain = _plain(value)
        try:
            if isinstance(plain, bool) or not isinstance(plain, Integral | float):
                raise TypeError
            number = float(plain)
        except (TypeError, OverflowError):
            raise EvidenceError(
                f"variable {self.name!r} has no value {shown(value)}: give a number"
            ) from None
        if self.support is not None:
            return f"{number:.6g}"
        return self.states[self._checked_index(int(number) if number.is_integer() else -1, value)]

    def index_of(self, state: object) -> int:
        """Return the index of a state given by its label or its index.

        Parameters
        ----------
        state : a label; an index as ``"#1"``, as a :class:`StateIndex`, or as a whole number if
            that is not the label of another state.

        Raises
        ------
        EvidenceError
            For what is no state, and for a number with two readings.

        Examples
        --------
        >>> grade = Variable("grade", ["1", "2", "3"])
        >>> grade.index_of("1"), grade.index_of("#1")
        (0, 1)
        >>> grade.index_of(1)
        Traceback (most recent call last):
        ...
        deltaai.errors.EvidenceError: variable 'grade' has labels that are numbers, so 1 may be its
        label '1' (index 0) or its index 1 (label '2'): write the text '1' for the label, or '#1'
        for the index
        """
        if self.support is not None:
            raise EvidenceError(f"variable {self.name!r} is {self.support}, and has no states")
        if isinstance(state, StateIndex):
            return self._checked_index(int(state), state)
        state = _plain(state)
        if isinstance(state, str):
            return self._index_of_text(state)
        if isinstance(state, bool) or not isinstance(state, Integral | float):
            return self._index_of_label(_text(state), state)
        return self._index_of_number(state)

    def _index_of_text(self, text: str) -> int:
        for label in (text, text.strip()):
            if label in self.states:
                return self.states.index(label)
        digits = text.strip().removeprefix(INDEX_MARK)
        is_index = digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_INDEX
        is_marked = text.strip().startswith(INDEX_MARK)
        if not is_index or not (is_marked or self._index_needs_no_mark):
            hint = ""
            if is_index and int(digits) < len(self.states):
                hint = f"; write '{INDEX_MARK}{digits}' for the state of index {digits}"
            raise EvidenceError(
                f"variable {self.name!r} has no state {text!r}{did_you_mean(text, self.states)} "
                f"(its states: {self._listed}){hint}"
            )
        return self._checked_index(int(digits), text)

    def _index_of_label(self, label: str, given: object) -> int:
        if label not in self.states:
            raise EvidenceError(
                f"variable {self.name!r} has no state {shown(given)} (its states: {self._listed})"
            )
        return self.states.index(label)

    def _index_of_number(self, number: Any) -> int:  # noqa: ANN401
        """State of a number, if its readings as a label and as an index agree."""
        text, index = _text(number), None
        if isinstance(number, Integral) or number.is_integer():
            # A column of whole numbers with blanks comes as floats, so 1.0 stands for 1 as well.
            text = text if text in self.states else _text(int(number))
            index = int(number) if 0 <= number < len(self.states) else None
        if text not in self.states:
            if self._has_ranges:
                return self._index_of_text(text)
            return self._checked_index(-1 if index is None else index, number)
        label = self.states.index(text)
        if index is not None and index != label:
            raise EvidenceError(
                f"variable {self.name!r} has labels that are numbers, so {index} may be its label "
                f"{text!r} (index {label}) or its index {index} (label {self.states[index]!r}): "
                f"write the text {text!r} for the label, or '{INDEX_MARK}{index}' for the index"
            )
        return label

    def _checked_index(self, index: int, given: object) -> int:
        if not 0 <= index < len(self.states):
            raise EvidenceError(
                f"variable {self.name!r} has no state {shown(given)}: "
                f"give a label or an index from 0 to {len(self.states) - 1}"
            )
        return index

    @property
    def _index_needs_no_mark(self) -> bool:
        """Whether digits in a text can only be an index: no label is a number, or has some."""
        return not self._has_ranges and not any(_NUMBER.fullmatch(label) for label in self.states)

    @property
    def _has_ranges(self) -> bool:
        first, last = self.states[0], self.states[-1]
        return bool(_LOWEST.fullmatch(first) and _HIGHEST.fullmatch(last))

    @property
    def _listed(self) -> str:
        return ", ".join(self.states[:8]) + (", ..." if len(self.states) > 8 else "")


def coordinate(variable: Variable, node: str) -> Variable:
    """The same variable as a coordinate of a vector.

    >>> coordinate(Variable("hand[1]", support="line"), "hand").node
    'hand'
    """
    made = copy(variable)
    object.__setattr__(made, "node", node)
    return made


def _plain(value: object) -> object:
    """The Python value of a number or truth value of numpy or torch; anything else as it is."""
    is_scalar = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    return value.item() if is_scalar else value  # type: ignore[attr-defined]


def _text(value: object) -> str:
    """The text of a value that may be a label; of what has none, nothing that could be one."""
    try:
        return str(value)
    except Exception:  # a stranger's object, or a number that Python does not write out
        return shown(value)


def _label(value: object, name: str) -> str:
    """The text of a state's label, which may be anything that has one."""
    try:
        return str(value)
    except Exception:
        raise ModelError(
            f"variable {name!r} has the state {shown(value)}, which has no text: give labels such "
            "as ['no', 'yes']"
        ) from None


def _labels(name: str, states: object) -> tuple[str, ...]:
    """The labels of a variable's states, from a list of them or from their number."""
    if isinstance(states, str | bytes | AbstractSet):
        kind = "a set has no order" if isinstance(states, AbstractSet) else "this is one text"
        raise ModelError(
            f"the states of variable {name!r} are {shown(states)}: {kind}; give a list of "
            "labels, such as ['no', 'yes'], or their number"
        )
    states = _plain(states)
    if isinstance(states, bool) or not isinstance(states, Integral | Iterable):
        raise ModelError(
            f"the states of variable {name!r} are their number or labels, not {shown(states)}"
        )
    if isinstance(states, Integral):
        if states < 1:
            raise ModelError(f"variable {name!r} needs at least one state, not {shown(states)}")
        if int(states) > MOST_STATES:
            raise ModelError(f"variable {name!r} has {shown(states)} states: at most {MOST_STATES}")
        labels = _numbered(int(states))
    else:
        labels = tuple(_label(label, name) for label in states)
        if not labels:
            raise ModelError(f"variable {name!r} needs at least one state")
        if len(set(labels)) != len(labels):
            double = Counter(labels).most_common(1)[0][0]
            raise ModelError(f"variable {name!r} has the state {double!r} twice")
    return labels
