"""Data to learn from: columns of labels as whole numbers, however they came.

A CSV file with names in its first line, a pandas ``DataFrame`` or a list of mappings becomes one
array of codes; what each code of a column stands for is kept beside it, as text. Blank cells,
``None``, NaN and the marks that a user names are missing. A file is read some rows at a time; a
cell, and a row, is counted with sixteen bytes, which is what learning takes in all. Which columns
become variables, and with which states, is not decided here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from deltaai.budget import Budget
from deltaai.errors import EvidenceError, FormatError, NotAffordableError, format_bytes, shown
from deltaai.io.case_stream import text_lines
from deltaai.io.evidence_table import column_names, in_blocks, is_frame, rows_of_cells
from deltaai.io.files import opened

MISSING = -1
MOST_LABELS = 2**20  # of one column: more are no labels, and would fill the memory
_ROWS_AT_ONCE = 4096
_NO_COMMAS = (";", "\t", "|")  # what others separate cells with
_BYTES_PER_CELL = 16  # while blocks are joined, and while rows are compared later


@dataclass(frozen=True, eq=False)
class DataTable:
    """Columns of cells as codes.

    Parameters
    ----------
    names : of the columns, in their order.
    labels : what the codes of each column stand for, in the order in which they came.
    codes : one row a case, one column a name; -1 where a cell is missing.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    codes: np.ndarray

    @property
    def num_rows(self) -> int:
        """Number of cases."""
        return len(self.codes)


@dataclass
class _Column:
    """The labels of a column so far."""

    name: str
    missing: frozenset[str]
    codes: dict[object, int] = field(default_factory=dict)  # of cells as they come
    labels: dict[str, int] = field(default_factory=dict)

    def encode(self, cells: Sequence[object]) -> list[int]:
        known = self.codes
        try:
            return [known[cell] for cell in cells]
        except (KeyError, TypeError):  # a cell that is new, or cannot be looked up
            return [self._code(cell) for cell in cells]

    def _code(self, cell: object) -> int:
        is_plain = type(cell) in {str, int}
        if is_plain and (code := self.codes.get(cell)) is not None:
            return code
        text = _text(cell)
        if not text or text in self.missing:
            code = MISSING
        else:
            code = self.labels.setdefault(text, len(self.labels))
            if code >= MOST_LABELS:
                raise EvidenceError(
                    f"column {self.name!r} has more than {MOST_LABELS} different values: leave it "
                    "out, or round its numbers"
                )
        if is_plain:
            self.codes[cell] = code
        return code


def _text(cell: object) -> str:
    """The text of a cell; nothing if it is blank."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return ""
    if isinstance(cell, float | np.floating):
        if math.isnan(cell):
            return ""
        # A column of whole numbers with blanks comes as floats.
        return str(int(cell)) if float(cell).is_integer() else repr(float(cell))
    return str(cell).strip()


def data_from_table(table: object, missing: Iterable[str] = ("?",)) -> DataTable:
    """Take a ``DataFrame`` or a list of mappings apart.

    Parameters
    ----------
    table : rows that are mappings may lack names: these cells are missing.
    missing : texts that say that a cell is missing, as blanks do.

    Examples
    --------
    >>> data = data_from_table([{"rain": "yes", "wet": 1}, {"rain": "?"}])
    >>> data.labels, data.codes.tolist()
    ((('yes',), ('1',)), [[0, 0], [-1, -1]])
    """
    if is_frame(table):
        frame: Any = table
        names = [str(name).strip() for name in frame.columns]
        columns: Sequence[Sequence[object]] = [
            frame.iloc[:, place].tolist() for place in range(len(names))
        ]
        num_rows = len(frame)
    elif isinstance(table, Sequence) and not isinstance(table, str):
        for number, row in enumerate(table):
            if not isinstance(row, Mapping):
                raise EvidenceError(f"row {number + 1} is a {type(row).__name__}, not a mapping")
        names = list(dict.fromkeys(str(name) for row in table for name in row))
        columns = [[row.get(name) for row in table] for name in names]
        num_rows = len(table)
    else:
        raise EvidenceError(
            f"the data are {shown(table)}: give a DataFrame, a CSV file, or a list with a mapping "
            "of names to values for each row"
        )
    if len(set(names)) < len(names):
        raise EvidenceError("the table has two columns of one name: keep one")
    encoders = [_Column(name, frozenset(missing)) for name in names]
    codes = np.empty((num_rows, len(names)), dtype=np.int32)
    for place, (encoder, cells) in enumerate(zip(encoders, columns, strict=True)):
        codes[:, place] = encoder.encode(cells)
    return DataTable(tuple(names), tuple(tuple(one.labels) for one in encoders), codes)


def data_from_csv(
    path: Path, missing: Iterable[str] = ("?",), budget: Budget | None = None
) -> DataTable:
    """Read a CSV file with names in its first line, compressed if its name ends in ``.gz``."""
    with opened(path) as stream:
        return data_from_stream(stream, str(path), missing, budget)


def data_from_stream(
    stream: BufferedIOBase,
    name: str,
    missing: Iterable[str] = ("?",),
    budget: Budget | None = None,
) -> DataTable:
    """Read the bytes of a CSV file, some rows at a time.

    Parameters
    ----------
    name : what to call it in messages.
    missing : texts that say that a cell is missing, as blanks do.
    budget : memory and time that may be used.
    """
    budget = Budget.given(budget)
    reader = csv.reader(text_lines(stream, name), strict=True)
    names = column_names(reader, name)
    if any(not one for one in names):
        raise FormatError(name, 1, "a column has no name: name it, or take it out")
    if len(names) == 1 and (other := next((c for c in _NO_COMMAS if c in names[0]), None)):
        what = f"there is one column, {names[0]!r}"
        raise FormatError(name, 1, f"{what}: cells are separated by commas, not by {other!r}")
    encoders = [_Column(one, frozenset(missing)) for one in names]
    blocks = list(_encoded(rows_of_cells(reader, len(names), name), encoders, name, budget))
    nothing = np.empty((0, len(names)), dtype=np.int32)
    codes = np.concatenate([nothing, *blocks])
    return DataTable(tuple(names), tuple(tuple(one.labels) for one in encoders), codes)


def _encoded(
    rows: Iterator[tuple[int, list[str]]],
    encoders: Sequence[_Column],
    name: str,
    budget: Budget,
) -> Iterator[np.ndarray]:
    num_bytes = 0
    for cells in in_blocks(rows, _ROWS_AT_ONCE):
        budget.check(f"reading {name}")
        block = np.empty((len(cells), len(encoders)), dtype=np.int32)
        columns = zip(*(line for _, line in cells), strict=True)
        for place, (encoder, column) in enumerate(zip(encoders, columns, strict=True)):
            try:
                block[:, place] = encoder.encode(column)
            except EvidenceError as error:
                raise EvidenceError(f"{name}: {error}") from None
        num_bytes += _BYTES_PER_CELL * (block.size + len(block))  # a row counts as a cell
        if num_bytes > budget.memory:
            raise NotAffordableError(
                f"{name} needs more than the memory limit of {format_bytes(budget.memory)}: raise "
                "the limit, or give fewer rows or columns"
            )
        yield block
