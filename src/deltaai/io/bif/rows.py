"""What stands inside a probability block of a BIF file: rows of numbers.

    (yes, low) 0.1, 0.9;      one row for each joint state of the parents
    default 0.5, 0.5;         for all joint states that have no row
    table 0.1, 0.2, ...;      everything at once: the child slowest, the last parent fastest

Nearly every block lists each row once and nothing else. Its words then form a rectangle, one line
a row, whose columns are checked and converted whole. Any other block is read statement by
statement; so is a wrong one, to say what is wrong with which statement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from deltaai.errors import FormatError
from deltaai.io.bif.blocks import Labels
from deltaai.io.bif.text import BifText
from deltaai.io.decimals import NumberProblem, Numbers, to_numbers
from deltaai.io.source import excerpt
from deltaai.watch import look

# Entries that default rows may add in one file: 2^24 doubles are 128 MiB.
LARGEST_NUM_DEFAULTED = 2**24

_STATEMENT = re.compile(r"\s*(\(|table\b|default\b)")
_BYTES_PER_CHARACTER = 12  # while the rows of a block are read
_ENTRY = re.compile(r"[^\s,]+")


class RowReader:
    """Reads the rows of the probability blocks of one file."""

    def __init__(self, cleaned: BifText) -> None:
        self.cleaned = cleaned
        self.num_defaulted = 0

    def table(
        self, position: int, rows: tuple[int, int], parents: Sequence[Labels], child: Labels
    ) -> Numbers:
        """Read the table of one block, flat, the child fastest.

        Parameters
        ----------
        position : where the block begins.
        rows : where its rows begin and end.
        parents, child : states of the variables in its head.
        """
        try:
            return _rectangle(self.cleaned.text[slice(*rows)], parents, len(child.names))
        except (_Irregular, KeyError, NumberProblem):
            return _Statements(self, position, rows, parents, child).table()


class _Irregular(Exception):
    """A block that does not list each row once and nothing else."""


def _rectangle(body: str, parents: Sequence[Labels], num_states: int) -> Numbers:
    """Read a block that lists each row once and nothing else.

    With brackets and semicolons kept as words, it is such a block exactly if each of them fills
    its column of the rectangle and the other columns hold known states and numbers.
    """
    look(_BYTES_PER_CHARACTER * len(body))
    for mark in "();":
        body = body.replace(mark, f" {mark} ")
    words = body.replace(",", " ").split()
    num_parents = len(parents)
    num_rows = math.prod([len(parent.index) for parent in parents])
    marks = {0: "(", num_parents + 1: ")", -1: ";"} if parents else {0: "table", -1: ";"}
    width = len(marks) + num_parents + num_states
    if len(words) != num_rows * width:
        raise _Irregular
    for column, mark in marks.items():
        if words[column % width :: width].count(mark) != num_rows:
            raise _Irregular
    row = np.zeros(num_rows, dtype=np.int64)
    for column, parent in enumerate(parents, start=1):
        states = map(parent.index.__getitem__, words[column::width])
        row = row * len(parent.index) + np.fromiter(states, np.int64, num_rows)
    is_listed = np.zeros(num_rows, dtype=np.bool_)
    is_listed[row] = True
    if not is_listed.all():
        raise _Irregular
    del words[width - 1 :: width]
    for column in range(width - num_states - 2, -1, -1):
        del words[column :: num_states + column + 1]
    table = np.empty((num_rows, num_states))
    table[row] = to_numbers(words).reshape(num_rows, num_states)
    return table.reshape(-1)


class _Statements:
    """Reads one block statement by statement."""

    def __init__(
        self,
        reader: RowReader,
        position: int,
        rows: tuple[int, int],
        parents: Sequence[Labels],
        child: Labels,
    ) -> None:
        self.reader = reader
        self.cleaned = reader.cleaned
        self.position = position
        self.begin, self.end = rows
        self.parents = parents
        self.sizes = [len(parent.names) for parent in parents]
        self.num_rows = math.prod(self.sizes)
        self.num_states = len(child.names)

    def table(self) -> Numbers:
        listed: dict[int, Numbers] = {}
        default: Numbers | None = None
        whole: Numbers | None = None
        for begin, keyword, content, end in self.statements():
            if keyword == "(":
                row, entries = self.row(begin, content, end)
                if row in listed:
                    raise self.error(begin, f"a second row for {self.describe(row)}; expected one")
                listed[row] = self.numbers(entries, end, self.num_states)
            elif keyword == "default":
                if default is not None:
                    raise self.error(begin, "a second default row; expected one")
                default = self.numbers(content, end, self.num_states)
            else:
                if whole is not None:
                    raise self.error(begin, "a second table; expected one")
                whole = self.numbers(content, end, self.num_rows * self.num_states)
        if whole is not None:
            if listed or default is not None:
                raise self.error(self.position, "a table and other rows; expected one or the other")
            by_child = whole.reshape(self.num_states, self.num_rows)
            return np.ascontiguousarray(by_child.T).reshape(-1)
        return self.fill(listed, default)

    def fill(self, listed: dict[int, Numbers], default: Numbers | None) -> Numbers:
        """Put the rows in order; only now is memory taken for a whole table."""
        if len(listed) < self.num_rows:
            if default is None:
                missing = next(row for row in range(self.num_rows) if row not in listed)
                lacking = f"row for {self.describe(missing)}" if self.parents else "table"
                raise self.error(
                    self.position,
                    f"no {lacking}; expected all {self.num_rows} rows, or a default row",
                )
            self.reader.num_defaulted += (self.num_rows - len(listed)) * self.num_states
            if self.reader.num_defaulted > LARGEST_NUM_DEFAULTED:
                raise self.error(
                    self.position,
                    f"default rows stand for {self.reader.num_defaulted} entries so far, and at "
                    f"most {LARGEST_NUM_DEFAULTED} are supported",
                )
        table = np.empty((self.num_rows, self.num_states))
        if default is not None:
            table[:] = default
        for row, values in listed.items():
            table[row] = values
        return table.reshape(-1)

    def statements(self) -> Iterator[tuple[int, str, int, int]]:
        """Where each statement begins, its keyword, where its content begins and ends."""
        text, begin = self.cleaned.text, self.begin
        stop = begin + len(text[begin : self.end].rstrip())
        while begin < stop:
            look()
            end = text.find(";", begin, self.end)
            statement = _STATEMENT.match(text, begin, self.end)
            if statement is None:
                found = text[begin : min(self.end, begin + 200)]
                begin += len(found) - len(found.lstrip())
                raise self.error(
                    begin, f"expected a row or table, found {self.cleaned.excerpt(found)}"
                )
            if end < 0:
                raise self.error(self.end, "expected ; at the end of the row")
            yield statement.start(1), statement[1], statement.end(), end
            begin = end + 1

    def row(self, begin: int, content: int, end: int) -> tuple[int, int]:
        """Read the states of the parents: the number of the row, and where its entries begin."""
        text = self.cleaned.text
        close = text.find(")", content, end)
        if close < 0:
            raise self.error(begin, "expected ) after the states of the parents")
        words = text[content:close].replace(",", " ").split()
        if len(words) != len(self.parents):
            raise self.error(
                begin,
                f"expected {len(self.parents)} states, one a parent, found "
                f"{self.cleaned.excerpt(text[begin : close + 1])}",
            )
        row = 0
        for parent, word in zip(self.parents, words, strict=True):
            if word not in parent.index:
                raise self.error(
                    begin,
                    f"no state {self.cleaned.name(word)!r}; expected one of "
                    f"{excerpt(', '.join(parent.names), 80)}",
                )
            row = row * len(parent.names) + parent.index[word]
        return row, close + 1

    def numbers(self, begin: int, end: int, expected: int) -> Numbers:
        content = self.cleaned.text[begin:end]
        words = _ENTRY.findall(content)
        position = begin + len(content) - len(content.lstrip())
        try:
            values = to_numbers(words)
        except NumberProblem as problem:
            culprit = next(islice(_ENTRY.finditer(content), problem.index, None))
            raise self.error(begin + culprit.start(), problem.message) from None
        if len(words) != expected:
            raise self.error(position, f"expected {expected} numbers, found {len(words)}")
        return values

    def describe(self, row: int) -> str:
        labels = []
        for parent, size in zip(reversed(self.parents), reversed(self.sizes), strict=True):
            row, state = divmod(row, size)
            labels.append(parent.names[state])
        return f"({', '.join(reversed(labels))})"

    def error(self, position: int, message: str) -> FormatError:
        return self.cleaned.source.error(position, message)
