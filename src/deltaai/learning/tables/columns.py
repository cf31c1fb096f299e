"""Columns of data as variables: which states they have, and what was done to them.

Labels are sorted, numbers by size, so that a model does not depend on the order of the rows. A
column of numbers with many values is cut at quantiles if the user says into how many bins, and
refused otherwise: nothing is binned in silence. What a user should know is noted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from deltaai.errors import EvidenceError, ModelError, Setting, did_you_mean
from deltaai.io import DataTable
from deltaai.models import Variable

MOST_STATES = 50  # of a column; more are numbers to be binned, or names of the cases
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
        variable, code = column.decided(known, number, notes)
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
        self, known: Variable | None, bins: int | None, notes: list[str]
    ) -> tuple[Variable, np.ndarray]:
        """The variable, and the state of each code, with one more for missing cells."""
        name, labels = self.name, self.labels
        if known is not None:
            try:
                states = [known.index_of(label) for label in labels]
            except EvidenceError as error:
                raise EvidenceError(f"column {name!r}: {error}") from None
            return known, np.array([*states, -1])
        if not labels:
            raise EvidenceError(
                f"column {name!r} has no known cell: leave it out, or name it as latent"
            )
        notes += [
            f"column {name!r} has the state {label!r}; if that means a missing cell, name it as one"
            for label in labels
            if label.lower() in _LOOK_MISSING
        ]
        numbers = _numbers(labels)
        if numbers is not None and bins is not None and bins < len(labels):
            return self.binned(numbers, bins, notes)
        if len(labels) > MOST_STATES:
            raise self._too_many(numbers)
        if len(labels) == 1:
            notes.append(f"column {name!r} has one value, {labels[0]!r}: it tells nothing")
        order = sorted(range(len(labels)), key=lambda k: (numbers[k] if numbers else 0, labels[k]))
        state = np.empty(len(labels) + 1, dtype=np.int64)
        state[order] = np.arange(len(labels))
        state[-1] = -1
        return _variable(name, [labels[k] for k in order]), state

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
        if bins < 2:
            raise EvidenceError(f"bins of column {self.name!r} is {bins}: it must be at least 2")
        values = np.array(numbers)
        cells = values[self.codes[self.codes >= 0]]
        cuts = np.unique(np.quantile(cells, np.arange(1, bins) / bins, method="higher"))
        cuts = cuts[cuts > values.min()]  # nothing is below the smallest
        if not len(cuts):  # most cells are the smallest
            cuts = np.sort(values)[1:2]
        texts = [f"{cut:.6g}" for cut in cuts]
        states = [f"<{texts[0]}"]
        states += [f"{low}..{high}" for low, high in pairwise(texts)]
        states += [f">={texts[-1]}"]
        notes.append(f"column {self.name!r} was cut into {len(states)} bins at {', '.join(texts)}")
        state = np.append(np.searchsorted(cuts, values, side="right"), -1)
        return _variable(self.name, states), state


def _variable(name: str, states: list[str]) -> Variable:
    try:
        return Variable(name, states)
    except ModelError as error:
        raise EvidenceError(f"column {name!r}: {error}") from None


def _numbers(labels: tuple[str, ...]) -> list[float] | None:
    """The labels as numbers, if all of them are."""
    try:
        found = [float(label) for label in labels]
    except ValueError:
        return None
    return found if all(math.isfinite(number) for number in found) else None
