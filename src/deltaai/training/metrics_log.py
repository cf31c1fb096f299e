"""The log of a training run: one row a line, in JSON lines or CSV, whichever the name says.

Every row is on the way to the disk before the next step begins, so that a killed run keeps its
log. A resumed run takes the log back to its checkpoint: rows of later steps are dropped, for they
are about to be computed again, and so is a last line that was cut off.

Numbers that JSON lacks are written as the text ``"Infinity"``, ``"-Infinity"`` and ``"NaN"`` and
read back as numbers; CSV has ``inf`` and ``nan``. This file does not decide what is measured, and
shows nothing.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, TextIO

from deltaai.errors import DeltaAIError, FormatError, OutputError
from deltaai.io import replace_file

Value = float | int | str | bool | None
Row = dict[str, Value]

_NOT_IN_JSON = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


class MetricsLog:
    """Rows of metrics, kept in memory and appended to a file.

    Parameters
    ----------
    path : a ``.jsonl`` or ``.csv`` file, or ``None`` for memory only.
    resume_from_step : ``None`` begins a new log, in place of one that is there. A step continues
        the one that is there after that step; its rows up to then are in :attr:`rows`.

    Raises
    ------
    FormatError
        If the name has another suffix, or the file to continue is not such a log.
    DeltaAIError
        If the file cannot be written.

    Examples
    --------
    >>> with MetricsLog(None) as log:
    ...     log.append({"step": 50, "loss": 0.25})
    >>> log.rows
    [{'step': 50, 'loss': 0.25}]
    """

    def __init__(self, path: str | Path | None, resume_from_step: int | None = None) -> None:
        self.rows: list[Row] = []
        self.path = None if path is None else Path(path)
        self._stream: TextIO | None = None
        if self.path is None:
            return
        if self.path.suffix.lower() not in _FORMATS:
            raise FormatError(self.path, None, "unknown kind of log; expected .jsonl or .csv")
        self._format = _FORMATS[self.path.suffix.lower()]()
        kept = "" if resume_from_step is None else self._keep_until(self.path, resume_from_step)
        self._start_from(self.path, kept)

    def append(self, row: Mapping[str, Value]) -> None:
        """Add a row; it names its ``step``, and may have columns that earlier rows had not."""
        added = _checked(row)
        if self.path is not None and self._stream is None:
            raise DeltaAIError(f"the log {self.path} is closed")
        self.rows.append(added)
        if self.path is None or self._stream is None:
            return
        if self._format.needs_rewrite(added):
            self._start_from(self.path, self._format.whole(self.rows))
            return
        try:
            self._stream.write(self._format.line(added))
            self._stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # which tries to write the rest again
                self.close()
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from None

    def extend(self, rows: Iterable[Mapping[str, Value]]) -> None:
        """Add several rows."""
        for row in rows:
            self.append(row)

    def close(self) -> None:
        """Close the file; the rows stay in memory."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _keep_until(self, path: Path, last_step: int) -> str:
        """Read the rows of a log up to a step; return its text without the others."""
        try:
            content = path.read_bytes()
            # A line without its end was cut off, whatever it seems to say.
            lines = content[: content.rfind(b"\n") + 1].decode().split("\n")[:-1]
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(path, None, f"cannot be read: {error}") from None
        kept = []  # as they stand: a resumed log equals an uninterrupted one to the byte
        for number, line in enumerate(lines, start=1):
            try:
                row = self._format.parse(line)
            except (ValueError, TypeError, RecursionError, csv.Error, DeltaAIError) as error:
                raise FormatError(path, number, f"not a row of metrics: {error}") from None
            if row is None:
                kept.append(line)
            elif isinstance(row["step"], int) and row["step"] <= last_step:
                kept.append(line)
                self.rows.append(row)
        return "".join(f"{line}\n" for line in kept)

    def _start_from(self, path: Path, text: str) -> None:
        """Make this the whole text of the file, and go on from its end."""
        self.close()
        replace_file(path, text.encode())
        self._stream = path.open("a", encoding="utf-8", newline="")


class _Format(Protocol):
    """How rows are lines of text."""

    def needs_rewrite(self, row: Row) -> bool:
        """Whether the row cannot just be appended."""

    def line(self, row: Row) -> str:
        """The row, with the end of its line."""

    def whole(self, rows: list[Row]) -> str:
        """The text of a file with all these rows."""

    def parse(self, line: str) -> Row | None:
        """The row of a line, or ``None`` for a line that holds none."""


class _JsonLines:
    """One JSON object a line."""

    def needs_rewrite(self, row: Row) -> bool:
        return False

    def line(self, row: Row) -> str:
        return json.dumps({name: _for_json(value) for name, value in row.items()}) + "\n"

    def whole(self, rows: list[Row]) -> str:
        return "".join(map(self.line, rows))

    def parse(self, line: str) -> Row | None:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("expected a JSON object")
        return _checked({name: _from_json(value) for name, value in row.items()})


class _CommaSeparated:
    """One header, then one row a line; a new column rewrites the file under a longer header."""

    def __init__(self) -> None:
        self.columns: list[str] = []

    def needs_rewrite(self, row: Row) -> bool:
        return not set(row) <= set(self.columns)

    def line(self, row: Row) -> str:
        return self._joined([row.get(name) for name in self.columns])

    def whole(self, rows: list[Row]) -> str:
        # On from the columns that are there, so that the order does not depend on the past.
        self.columns = list(dict.fromkeys([*self.columns, *(name for row in rows for name in row)]))
        return self._joined(list(self.columns)) + "".join(map(self.line, rows))

    def parse(self, line: str) -> Row | None:
        cells = next(csv.reader([line], strict=True))
        if not self.columns:
            self.columns = cells
            return None
        cells_by_name = zip(self.columns, cells, strict=True)
        return _checked({name: _from_cell(cell) for name, cell in cells_by_name if cell != ""})

    def _joined(self, cells: list[Value]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()


_FORMATS: dict[str, type[_JsonLines] | type[_CommaSeparated]] = {
    ".jsonl": _JsonLines,
    ".csv": _CommaSeparated,
}


def _checked(row: Mapping[str, Value]) -> Row:
    """A copy of the row in plain types, after refusing what a log cannot hold."""
    if type(row.get("step")) is not int:
        raise DeltaAIError(f"a row of metrics names its step, a whole number; got {dict(row)!r}")
    return {name: _plain(name, value) for name, value in row.items()}


def _plain(name: str, value: Value) -> Value:
    if {"\n", "\r"} & set(name + value if isinstance(value, str) else name):
        raise DeltaAIError(f"the metric {name!r} is {value!r}; a row must fit in one line")
    if isinstance(value, float):
        return float(value)  # numpy's doubles too, which print differently
    if value is None or isinstance(value, bool | int | str):
        return value
    raise DeltaAIError(
        f"the metric {name!r} is {value!r}; a log holds numbers and texts (.item() makes a number "
        "of a tensor)"
    )


def _for_json(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _from_json(value: Value) -> Value:
    return _NOT_IN_JSON.get(value, value) if isinstance(value, str) else value


def _from_cell(cell: str) -> Value:
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float):
        try:
            number = kind(cell)
        except ValueError:
            continue
        if repr(number) == cell:  # "007" is a text
            return number
    return cell
