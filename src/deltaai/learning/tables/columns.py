"""Columns of data as variables: which states they have, and what was done to them.

Labels are sorted, numbers by size, so that a model does not depend on the order of the rows. A
column of numbers with many values is cut at quantiles if the user says into how many bins, and
refused otherwise: nothing is binned in silence. What a user should know is noted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deltaai.errors import ConfigError, EvidenceError, ModelError, Setting, did_you_mean
from deltaai.io import DataTable
from deltaai.learning.tables.bins import Cuts, number_of, numbers_of
from deltaai.models import Variable

MOST_STATES = 50  # of a column; more are numbers to be binned, or names of the cases
_FEW_ODD = 3  # labels that are no numbers, in a column of numbers
_LOOK_MISSING = frozenset({"na", "n/a", "nan", "null", "none", "missing", "unknown", "-", "."})

Bins = int | Mapping[str, int] | None


@dataclass(frozen=True, eq=False)
class Columns:
    """Data in terms of variables.

    Parameters
    ----------
    variables : one for each column that is kept, and for each that is never seen.
    rows : states, -1 where a cell is missing.
    notes : what was done that a user may not expect, one sentence each.
    """

    variables: tuple[Variable, ...]
    rows: np.ndarray
    notes: tuple[str, ...]


def columns_of(
    data: DataTable,
    given: Mapping[str, Variable] | None = None,
    latent: Mapping[str, Variable] | None = None,
    bins: Bins = None,
) -> Columns:
    """Decide which variables there are, and write the rows as their states.

    Parameters
    ----------
    data : the cells.
    given : variables of a structure, in order; columns that are none of them are left out.
    latent : variables that have no column.
    bins : into how many bins to cut columns of many numbers: all of them, or by name.
    """
    if not data.num_rows:
        raise EvidenceError("the data have no rows: there is nothing to learn from")
    latent = latent or {}
    notes: list[str] = []
    for name in latent:
        if name in data.names:
            raise EvidenceError(
                f"{name!r} is to be latent, but the data have a column of that name"
            )
    wanted = list(data.names) if given is None else [n for n in given if n not in latent]
    if given is not None:
        _check_given(wanted, data, notes)
    if given is not None and bins is not None:
        raise ConfigError(
            Setting("bins"),
            " would cut columns whose states are given by a model: leave it out",
        )
    if isinstance(bins, Mapping):
        for name in bins:
            if name not in wanted:
                raise EvidenceError(
                    f"bins name {name!r}, which is no column{did_you_mean(name, wanted)}"
                )
    variables, states = [], []
    for name in wanted:
        place = data.names.index(name)
        known = None if given is None else given[name]
        number = bins.get(name) if isinstance(bins, Mapping) else bins
        column = _Column(name, data.labels[place], data.codes[:, place])
        is_named = isinstance(bins, Mapping)
        variable, code = column.decided(known, number, notes, is_named=is_named)
        variables.append(variable)
        states.append(code[data.codes[:, place]])
    for variable in latent.values():
        variables.append(variable)
        states.append(np.full(data.num_rows, -1))
    most = max((variable.num_states for variable in variables), default=1)
    small = np.int8 if most < 128 else np.int32
    rows = np.empty((data.num_rows, len(variables)), dtype=small)
    for place, column in enumerate(states):
        rows[:, place] = column
    return Columns(tuple(variables), rows, tuple(notes))


def _check_given(wanted: list[str], data: DataTable, notes: list[str]) -> None:
    for name in wanted:
        if name not in data.names:
            raise EvidenceError(
                f"the structure has the variable {name!r}, and the data no such column"
                f"{did_you_mean(name, data.names)}: name it as latent to learn it unseen"
            )
    unused = [name for name in data.names if name not in wanted]
    if unused:
        listed = ", ".join(repr(name) for name in unused[:5]) + (", ..." if unused[5:] else "")
        notes.append(f"columns that the structure does not have were left out: {listed}")


@dataclass(frozen=True, eq=False)
class _Column:
    """The cells of one column.

    Parameters
    ----------
    name, labels, codes : as in a :class:`DataTable`.
    """

    name: str
    labels: tuple[str, ...]
    codes: np.ndarray

    def decided(
        self, known: Variable | None, bins: int | None, notes: list[str], *, is_named: bool
    ) -> tuple[Variable, np.ndarray]:
        """The variable, and the state of each code, with one more for missing cells.

        Parameters
        ----------
        known : the variable, if a structure came with it.
        bins : into how many bins to cut it, if at all.
        notes : what is to be known is added to them.
        is_named : whether the bins were asked for by its name.
        """
        name, labels = self.name, self.labels
        if known is not None:
            return known, self._as_known(known, notes)
        if not labels:
            raise EvidenceError(
                f"column {name!r} has no known cell: leave it out, or name it as latent"
            )
        notes += [
            f"column {name!r} has the state {label!r}; if that means a missing cell, name it as one"
            for label in labels
            if label.lower() in _LOOK_MISSING
        ]
        numbers = numbers_of(labels)
        if bins is not None and bins < len(labels):
            if numbers is not None:
                return self.binned(numbers, bins, notes)
            self._refuse_odd(is_asked=is_named)
        if len(labels) > MOST_STATES:
            self._refuse_odd(is_asked=False)
            raise self._too_many(numbers)
        if len(labels) == 1:
            notes.append(f"column {name!r} has one value, {labels[0]!r}: it tells nothing")
        order = sorted(range(len(labels)), key=lambda k: (numbers[k] if numbers else 0, labels[k]))
        state = np.empty(len(labels) + 1, dtype=np.int64)
        state[order] = np.arange(len(labels))
        state[-1] = -1
        return _variable(name, [labels[k] for k in order]), state

    def _as_known(self, known: Variable, notes: list[str]) -> np.ndarray:
        """States of a variable that is given; numbers fall into its bins, if it has bins."""
        cuts = Cuts.of_labels(known.states)
        numbers = {
            label: number
            for label in (self.labels if cuts is not None else ())
            if label not in known.states and (number := number_of(label)) is not None
        }
        if cuts is not None and numbers:
            notes.append(
                f"column {self.name!r} was cut as the model says, at {', '.join(cuts.texts)}"
            )
        states = []
        for label in self.labels:
            if cuts is not None and math.isfinite(numbers.get(label, math.nan)):
                states.append(int(cuts.states_of(np.array(numbers[label]))))
                continue
            try:
                states.append(known.index_of(label))
            except EvidenceError as error:
                raise EvidenceError(f"column {self.name!r}: {error}") from None
        return np.array([*states, -1])

    def _refuse_odd(self, *, is_asked: bool) -> None:
        """Refuse to take numbers for names because of a few cells that are none.

        Parameters
        ----------
        is_asked : whether somebody says that it is a column of numbers.
        """
        odd = [label for label in self.labels if numbers_of([label]) is None]
        is_nan = all(number_of(label) is not None for label in odd)
        is_few = len(odd) <= _FEW_ODD and len(self.labels) > MOST_STATES
        if odd and (is_asked or is_few or (is_nan and len(odd) < len(self.labels))):
            listed = ", ".join(map(repr, odd[:_FEW_ODD])) + (", ..." if odd[_FEW_ODD:] else "")
            raise EvidenceError(
                f"column {self.name!r} cannot be cut into bins, for it holds {listed} where "
                "numbers should be: if that means a missing cell, say so with ",
                Setting("missing"),
            )

    def _too_many(self, numbers: list[float] | None) -> EvidenceError:
        what = f"column {self.name!r} has {len(self.labels)} different "
        if numbers is None:
            return EvidenceError(
                f"{what}values, and at most {MOST_STATES} can be states: leave it out if it names "
                "the cases, or join values"
            )
        return EvidenceError(
            f"{what}numbers, and at most {MOST_STATES} can be states: say with ",
            Setting("bins"),
            f" into how many bins to cut {self.name!r} at quantiles, or leave it out",
        )

    def binned(
        self, numbers: list[float], bins: int, notes: list[str]
    ) -> tuple[Variable, np.ndarray]:
        """Cut numbers at quantiles of the known cells."""
        values = np.array(numbers)
        cuts = Cuts.at_quantiles(values[self.codes[self.codes >= 0]], bins)
        listed = ", ".join(cuts.texts)
        notes.append(f"column {self.name!r} was cut into {len(cuts.labels)} bins at {listed}")
        return _variable(self.name, cuts.labels), np.append(cuts.states_of(values), -1)


def _variable(name: str, states: list[str]) -> Variable:
    try:
        return Variable(name, states)
    except ModelError as error:
        raise EvidenceError(f"column {name!r}: {error}") from None
