"""``deltaai query --evidence-file cases.csv``: many cases in, a table of posteriors out.

Cases are read, answered and written some at a time, so a table of any length needs little memory.
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rich.markup import escape

from deltaai.answering import Question, TableAnswer, query_stream
from deltaai.cli import show
from deltaai.cli.outputs import Failures
from deltaai.cli.progress import bars
from deltaai.cli.query import nothing_kept
from deltaai.errors import OutputError, TimeLimitError
from deltaai.io import CaseStream, WatchedStream
from deltaai.models import FactorGraph

STANDARD_INPUT = Path("-")
_SUFFIXES = (".csv", ".csv.gz")
_MOST_SHOWN = 20
_MOST_DOUBTS, _MOST_DOUBTS_SHOWN = 1000, 5  # that are counted apart, and shown


def is_table(path: Path | None) -> bool:
    """Whether a file of evidence has many cases, by its name."""
    return path is not None and (path == STANDARD_INPUT or path.name.lower().endswith(_SUFFIXES))


def read_cases(file: Path, model: FactorGraph) -> CaseStream:
    """The cases of a file, or of standard input, to be read when they are asked for."""
    if file != STANDARD_INPUT:
        return CaseStream.of_file(file, model)
    return CaseStream.passing("standard input", standard_input(), model)


def standard_input() -> io.BufferedIOBase:
    """Bytes that are waited for no longer than there is time, if a system is behind them."""
    try:
        return io.BufferedReader(WatchedStream(sys.stdin.fileno(), is_owner=False))
    except (OSError, ValueError):  # somebody put another stream in its place
        stream = getattr(sys.stdin, "buffer", None)
        return stream or io.BytesIO(sys.stdin.read().encode())


def run_table(
    question: Question,
    *,
    samples_output: Path | None,
    output: Path | None,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Ask about every case, and show or write the answers as they come."""
    late: TimeLimitError | None = None
    failures, summary = Failures(), _Summary()
    with ExitStack() as open_files, nothing_kept():
        writers: list[_Writer] = []
        if is_json:
            writers.append(_Json(output, open_files))
        elif is_csv or output is not None:
            writers.append(_Csv(output, open_files))
        if samples_output is not None:
            writers.append(_Samples(samples_output, open_files))
        with bars("answering") as shown:
            try:
                for answer in query_stream(question, shown):
                    summary.add(answer)
                    for writer in tuple(writers):
                        with failures.kept(), writer.given_up_if_it_fails(writers):
                            writer.write(answer)
            except TimeLimitError as error:
                if not summary.num_cases:
                    raise
                late = error  # what is done is kept
        for writer in writers:
            with failures.kept():
                writer.finish(summary)
                writer.file.close()
    show.detail(f"read {question.cases.name}: {show.plural(summary.num_cases, 'case')}")
    if output is None and not is_csv and not is_json:
        summary.print()
    elif not is_json:
        show.note(str(summary))
    failures.tell()
    if late is not None:
        raise late


class _Writer:
    """One of the outputs, which may fail without taking the others with it.

    Parameters
    ----------
    output : its file, or the screen.
    open_files : those that vanish if all ends with an error.
    """

    def __init__(self, output: Path | None, open_files: ExitStack) -> None:
        self.file = open_files.enter_context(ExitStack())
        self.write_text = self.file.enter_context(show.writing(output))
        self.num_rows = 0

    def write(self, answer: TableAnswer) -> None:
        """Write the answers of a block."""
        raise NotImplementedError

    def finish(self, summary: _Summary) -> None:
        """Write what comes after all of them."""

    @contextmanager
    def given_up_if_it_fails(self, writers: list[_Writer]) -> Iterator[None]:
        """Leave no half file, and ask this one no more."""
        try:
            yield
        except OutputError as error:
            writers.remove(self)
            self.file.__exit__(type(error), error, error.__traceback__)
            raise


class _Csv(_Writer):
    """Answers as CSV, one line a case."""

    def write(self, answer: TableAnswer) -> None:
        head = [] if self.num_rows else [answer.header()]
        self.num_rows += len(answer)
        self.write_text(show.csv_text([*head, *answer.cells()]))


class _Json(_Writer):
    """Answers as one JSON document, one line a case."""

    def write(self, answer: TableAnswer) -> None:
        if self.num_rows == 0:
            about = {"method": answer.method, "notes": answer.notes}
            texts = (f'  "{name}": {show.json_line(value)},' for name, value in about.items())
            self.write_text("\n".join(["{", *texts, '  "rows": [']))
        for row in _documents(answer):
            self.write_text((",\n    " if self.num_rows else "\n    ") + show.json_line(row))
            self.num_rows += 1

    def finish(self, summary: _Summary) -> None:
        self.write_text(f'\n  ],\n  "seconds": {show.json_line(summary.seconds)}\n}}\n')


class _Samples(_Writer):
    """Sampled states as CSV, one line each."""

    def write(self, answer: TableAnswer) -> None:
        if self.num_rows == 0:
            names = [variable.name for variable in answer.model.variables]
            self.write_text(show.csv_text([["row", "sample", *names]]))
        first = self.num_rows
        numbered = ([str(first + int(row)), *rest] for row, *rest in answer.sample_cells())
        self.write_text(show.csv_text(numbered))
        self.num_rows += len(answer)


def _documents(answer: TableAnswer) -> Any:  # noqa: ANN401
    for row in range(len(answer)):
        yield {
            "status": answer.status[row],
            "log_partition": answer.log_partition[row],
            "stderr": answer.stderr[row],
            "ess": answer.ess[row],
            "khat": answer.khat[row],
            "visible_share": answer.visible_share[row],
            "doubts": answer.doubts[row],
            "probabilities": dict(
                zip(answer.columns, answer.probabilities[row].tolist(), strict=True)
            ),
        }


class _Summary:
    """What is said of all cases: how many of each status, and the first of them."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.num_cases = 0
        self.method = ""
        self.statuses: Counter[str] = Counter()
        self.doubts: Counter[str] = Counter()
        self.columns: tuple[str, ...] = ()
        self.first: list[list[str]] = []

    def add(self, answer: TableAnswer) -> None:
        """Count the cases of a block; notes are the same for all, and told at once."""
        if self.num_cases == 0:
            show.notes(answer.notes)
        self.method, self.columns = answer.method, answer.columns
        self.statuses.update(answer.status)
        for doubt in filter(None, answer.doubts):
            if doubt in self.doubts or len(self.doubts) < _MOST_DOUBTS:
                self.doubts[doubt] += 1
        wanted = min(_MOST_SHOWN - len(self.first), len(answer))
        for row in range(max(wanted, 0)):
            shown = (f"{p:.4f}" for p in answer.probabilities[row].tolist())
            log_z = f"{answer.log_partition[row]:.4f}"
            self.first.append([str(self.num_cases + row + 1), *shown, log_z, answer.status[row]])
        self.num_cases += len(answer)

    @property
    def seconds(self) -> float:
        """Time since the question was asked."""
        return time.perf_counter() - self.started

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.statuses.most_common())
        cases = show.plural(self.num_cases, "case")
        return f"{cases} in {self.seconds:.2f} s by {self.method}: {counts or 'none'}"

    def print(self) -> None:
        """Show the first cases, the counts, and why cases are not to be trusted."""
        show.rows_table(["case", *self.columns, "log Z", "status"], self.first, self.num_cases)
        show.out.print(escape(str(self)), soft_wrap=True)
        common = islice(self.doubts.most_common(), _MOST_DOUBTS_SHOWN)
        show.doubts(f"{show.plural(count, 'case')}: {doubt}" for doubt, count in common)
