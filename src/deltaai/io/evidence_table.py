"""Rows of evidence: one column a variable, one row a case, blanks for what is not known.

They come as a pandas ``DataFrame``, as a list of mappings, or as a CSV file with variable names in
its first line. Cells hold labels or state indices, and mean what they mean everywhere
(:meth:`~deltaai.models.Variable.value_of`). What is blank in a cell is unknown: nothing, spaces,
``None`` or NaN, which a real variable may also have as a text. In models with real variables rows
are floating, and what is unknown is NaN.
"""

from __future__ import annotations

import csv
import io
import math
from _csv import Reader
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.errors import EvidenceError, FormatError, one_line
from deltaai.io.source import Source
from deltaai.models import FactorGraph

Rows = Num[Tensor, "row var"]  # states, -1 where nothing is known; NaN if any variable is real

_ROWS_AT_ONCE = 4096
_PLAIN = frozenset((str, int))  # cells of these types that are equal mean the same


class CellError(EvidenceError):
    """A cell that stands for no state.

    Parameters
    ----------
    row : where it is, counted from zero; people are told from one.
    message : what is wrong with it.
    """

    def __init__(self, row: int, message: str) -> None:
        self.row = row
        self.message = message
        super().__init__(f"row {row + 1}: {message}")

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return type(self), (self.row, self.message)


def rows_from_table(table: object, model: FactorGraph) -> Rows:
    """Read rows of evidence from a ``DataFrame`` or a sequence of mappings.

    Parameters
    ----------
    table : a ``DataFrame`` with a column for each variable that may be observed, or mappings of
        names to states; a variable that a row does not mention is unknown in it.
    model : says which variables and states there are.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> rows_from_table([{"rain": "yes"}, {}], zoo.sprinkler()).tolist()
    [[-1, -1, 1, -1], [-1, -1, -1, -1]]
    """
    if is_frame(table):
        frame: Any = table
        columns = {str(name): frame.iloc[:, place] for place, name in enumerate(frame.columns)}
        if len(columns) < len(frame.columns):
            raise EvidenceError("the table has two columns of one name: keep one")
        return rows_from_columns(columns, len(frame), model)
    if not isinstance(table, Sequence) or isinstance(table, str):
        raise EvidenceError(
            f"rows of evidence are a {type(table).__name__}: give a DataFrame, or a list with a "
            "mapping of names to states for each row"
        )
    names: dict[str, list[object]] = {}
    for number, row in enumerate(table):
        if not isinstance(row, Mapping):
            raise EvidenceError(f"row {number + 1} is a {type(row).__name__}, not a mapping")
        for name, state in _by_coordinates(row, model):
            named = model.variables[model.index(name)].name  # refuses what is no name
            names.setdefault(named, [None] * len(table))[number] = state
    return rows_from_columns(names, len(table), model)


def _by_coordinates(row: Mapping[str, object], model: FactorGraph) -> Iterator[tuple[str, object]]:
    """Names and cells of a row; a vector gives one for each of its coordinates."""
    if model.is_discrete:
        yield from row.items()
        return
    vectors = {name: places for name, places in model.nodes if len(places) > 1}
    for name, value in row.items():
        if name in vectors and value is not None:
            observed = model.resolve_evidence({name: value})
            yield from ((model.variables[place].name, x) for place, x in observed.items())
        elif name not in vectors:
            yield name, value


def is_frame(table: object) -> bool:
    """Whether it is a ``DataFrame``, without importing pandas."""
    return type(table).__name__ == "DataFrame" and hasattr(table, "iloc")


def rows_from_csv(source: Source, model: FactorGraph) -> Rows:
    """Read rows of evidence from the text of a CSV file with names in its first line."""
    blocks = list(blocks_from_csv(io.StringIO(source.text), source.path, model, _ROWS_AT_ONCE))
    return torch.cat(blocks) if blocks else rows_from_columns({}, 0, model)


def blocks_from_csv(
    lines: Iterable[str], path: str, model: FactorGraph, rows_at_once: int
) -> Iterator[Rows]:
    """Read rows of evidence from the lines of a CSV file, some at a time.

    Parameters
    ----------
    lines : of the file; they are taken as they are needed.
    path : what to call the file in messages.
    model : says which variables and states there are.
    rows_at_once : rows of a block, except of the last one.
    """
    reader = csv.reader(lines, strict=True)
    names = column_names(reader, path)
    first, lines_of = 0, tuple[int, ...]()
    try:
        rows_from_columns({name: () for name in names}, 0, model)  # are the names known?
        for cells in in_blocks(rows_of_cells(reader, len(names), path), rows_at_once):
            lines_of, block = zip(*cells, strict=True)
            columns = {name: [line[place] for line in block] for place, name in enumerate(names)}
            yield rows_from_columns(columns, len(block), model, first)
            first += len(block)
    except CellError as error:
        where = f"row {error.row + 1} (line {lines_of[error.row - first]} of the file)"
        raise EvidenceError(f"{path}: {where}: {one_line(error.message)}") from None
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {one_line(error)}") from None


def column_names(reader: Reader, path: str) -> list[str]:
    """Names of the columns, from the first line."""
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise FormatError(path, reader.line_num, f"not a CSV file: {error}") from None
    if not header or not any(name.strip() for name in header):
        raise FormatError(path, 1, "the first line must name variables; it is empty")
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        raise FormatError(path, 1, "two columns have one name")
    return names


def rows_of_cells(reader: Reader, num_cells: int, path: str) -> Iterator[tuple[int, list[str]]]:
    """Cells of each row, and the line that it ends at."""
    try:
        for line in reader:
            if line and len(line) != num_cells:
                raise FormatError(
                    path,
                    reader.line_num,
                    f"expected {num_cells} cells, as the first line has, but found {len(line)}",
                )
            if line or num_cells == 1:  # of one variable a blank says that it is not known
                yield reader.line_num, line or [""]
    except csv.Error as error:
        raise FormatError(path, reader.line_num, f"not a CSV file: {error}") from None


def in_blocks(
    rows: Iterator[tuple[int, list[str]]], size: int
) -> Iterator[list[tuple[int, list[str]]]]:
    """Some rows at a time."""
    while block := list(islice(rows, size)):
        yield block


def rows_from_columns(
    columns: Mapping[str, Iterable[object]], num_rows: int, model: FactorGraph, first: int = 0
) -> Rows:
    """Join columns of cells, each named after a variable; rows are counted from the first."""
    blank, kind = (-1, np.int64) if model.is_discrete else (np.nan, np.float64)
    rows = np.full((num_rows, model.num_variables), blank, dtype=kind)
    for name, cells in columns.items():
        variable = model.index(name)
        known: dict[object, int | float] = {}  # most cells repeat
        states: list[int | float] = []
        for number, cell in enumerate(cells):
            is_plain = cell is None or type(cell) in _PLAIN
            state = known.get(cell) if is_plain else None
            if state is None:
                state = _state_of(cell, model, variable, first + number)
                if is_plain:
                    known[cell] = state
            states.append(state)
        rows[:, variable] = states
    return torch.from_numpy(rows)


def _state_of(cell: object, model: FactorGraph, variable: int, number: int) -> int | float:
    """State or number that a cell stands for; -1 or NaN if it is blank."""
    blank = -1 if model.is_discrete else math.nan
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return blank
    if type(cell).__name__ in {"NAType", "NaTType"}:
        return blank
    if isinstance(cell, float | np.floating) and math.isnan(cell):
        return blank
    if model.variables[variable].is_real and isinstance(cell, str) and _is_nan(cell):
        return blank
    try:
        return model.variables[variable].value_of(cell)
    except EvidenceError as error:
        raise CellError(number, str(error)) from None


def _is_nan(cell: str) -> bool:
    """Whether it is what programs write for a number that is not there."""
    return cell.strip().lower() in {"nan", "na"}
