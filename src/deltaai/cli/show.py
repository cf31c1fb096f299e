"""How results look in a terminal, and the same as JSON or CSV for other programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from deltaai.answering import ModelReport, Plan
from deltaai.cli.console import detail, err, has_progress, note, notes, out
from deltaai.display import plural as plural  # noqa: PLC0414  for the commands
from deltaai.display import quantity as quantity  # noqa: PLC0414
from deltaai.errors import OutputError
from deltaai.io import replace_file, replacing
from deltaai.models import FactorGraph
from deltaai.real_marginals import QUANTILES, RealMarginal, written
from deltaai.trust import Answer
from deltaai.trust import what_was_checked as what_was_checked  # noqa: PLC0414

# Commands speak through this module alone, so it hands on the streams for people.
__all__ = ["detail", "err", "has_progress", "note", "notes", "out"]

Write = Callable[[str], object]  # puts a text where it belongs

_BAR_WIDTH = 20
_SHOWN_QUANTILES = (0.025, 0.5, 0.975)
_MOST_ROWS = 60
_MOST_COLUMNS = 8
_MOST_CASES = 20
_NUMBER_WIDTH = 7


def figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a small two-column table."""
    table = Table(
        title=escape(title), title_justify="left", show_header=False, box=None, padding=(0, 2)
    )
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(value))
    out.print(table)


def report_rows(report: ModelReport) -> list[tuple[str, str]]:
    """Figures of a checked model."""
    share = report.num_zeros / report.num_entries if report.num_entries else 0.0
    conditional = f", {report.num_conditional_tables} of them conditional tables"
    states = f"up to {report.most_states} states"
    if report.num_real:
        real = f"{report.num_real} of them real"
        states = real if report.num_real == report.num_variables else f"{real}, {states}"
    return [
        ("variables", f"{report.num_variables} ({states})"),
        ("factors", f"{report.num_factors}" + conditional * (report.num_conditional_tables > 0)),
        ("largest scope", f"{report.largest_scope} variables"),
        ("table entries", f"{quantity(report.num_entries)}, {report.num_zeros} zero ({share:.1%})"),
        ("edges", f"{report.num_edges} in {plural(report.num_components, 'component')}"),
    ]


def marginal_table(model: FactorGraph, marginals: Mapping[str, Any], title: str) -> None:
    """Print what is known of all variables: of those with states, then of real ones."""
    real = {name: row for name, row in marginals.items() if isinstance(row, RealMarginal)}
    if real:
        _real_table(real, title)
    if len(real) < len(marginals) or not marginals:
        rest = {name: row for name, row in marginals.items() if name not in real}
        _probability_table(model, rest, title if not real else "")


def _real_table(marginals: Mapping[str, RealMarginal], title: str) -> None:
    """Print mean, deviation, and the quantiles that a terminal has room for."""
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 2))
    table.add_column("variable", overflow="fold")
    has_errors = not all(found.is_closed_form for found in marginals.values())
    quantiles = [f"{100 * quantile:g} %" for quantile in _SHOWN_QUANTILES]
    for heading in ("mean", *["error"] * has_errors, "deviation", *quantiles):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, found in islice(marginals.items(), _MOST_ROWS):
        ends = (float(found.quantile(quantile)) for quantile in _SHOWN_QUANTILES)
        numbers = [found.mean, found.deviation, *ends]
        mean, *rest = written(numbers, found.deviation) if found.deviation else _same(numbers)
        error = [f"{found.stderr:.1g}"] * has_errors
        table.add_row(escape(name), mean, *error, *rest)
    out.print(table)
    if len(marginals) > _MOST_ROWS:
        _and_more(len(marginals) - _MOST_ROWS)


def _same(numbers: Sequence[float]) -> list[str]:
    return [f"{number:.6g}" for number in numbers]


def _and_more(count: int) -> None:
    out.print(
        f"  ... and {count} more variables: choose with --of, or see all with --csv or --json",
        style="dim",
    )


def _probability_table(model: FactorGraph, marginals: Mapping[str, Any], title: str) -> None:
    """Print probabilities with bars; very long lists are cut, and say so."""
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 2))
    for heading in ("variable", "state"):
        table.add_column(heading, overflow="fold")
    table.add_column("probability", justify="right")
    table.add_column("")
    rows = 0
    for shown, (name, row) in enumerate(marginals.items()):
        if rows > _MOST_ROWS:
            out.print(table)
            _and_more(len(marginals) - shown)
            return
        states = model.variables[model.index(name)].states
        for position, (state, probability) in enumerate(zip(states, row, strict=True)):
            bar = "█" * round(_BAR_WIDTH * float(probability))
            label = escape(name) if position == 0 else ""
            table.add_row(label, escape(state), f"{probability:.6f}", f"[cyan]{bar}[/]")
        rows += len(states)
    out.print(table)


def rows_table(header: Sequence[str], rows: Iterable[Sequence[str]], num_rows: int) -> None:
    """Print a wide table: its first rows, and its first and last columns."""
    right = 2
    # As many of the first columns as the screen has room for, beside the last ones.
    widths = [max(len(name), _NUMBER_WIDTH) + 4 for name in header]
    room = out.width - sum(widths[-right:])
    left = max(sum(total <= room for total in accumulate(widths[:-right])), 1)
    is_wide = len(header) > left + right
    table = Table(box=None, padding=(0, 2))
    for name in _cut(header, left, right):
        table.add_column(escape(name), justify="right" if name != "status" else "left")
    for row in islice(rows, _MOST_CASES):
        table.add_row(*(escape(cell) for cell in _cut(row, left, right)))
    out.print(table)
    hidden = [
        f"{num_rows - _MOST_CASES} more rows" if num_rows > _MOST_CASES else "",
        f"{len(header) - left - right} more columns" if is_wide else "",
    ]
    if any(hidden):
        listed = " and ".join(filter(None, hidden))
        out.print(f"  ... and {listed}: choose with --of, or write all with -o FILE", style="dim")


def _cut(cells: Sequence[str], left: int, right: int) -> list[str]:
    return list(cells) if len(cells) <= left + right else [*cells[:left], *cells[-right:]]


def samples_table(model: FactorGraph, states: Tensor, title: str) -> None:
    """Print states as labels, one row a sample; wide models show their first variables."""
    shown = model.variables[:_MOST_COLUMNS]
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 2))
    for variable in shown:
        table.add_column(escape(variable.name))
    for row in states.tolist():
        table.add_row(*(escape(v.text_of(k)) for v, k in zip(shown, row, strict=False)))
    out.print(table)
    if len(shown) < model.num_variables:
        more = model.num_variables - len(shown)
        out.print(f"  ... and {more} more variables: see all with --csv or -o FILE", style="dim")


def doubts(some: Iterable[str]) -> None:
    """Print why something is not to be trusted."""
    for doubt in some:
        out.print(f"[red]not to be trusted[/]: {escape(doubt)}", soft_wrap=True)


def as_json(value: object) -> None:
    """Print a result as one JSON document."""
    sys.stdout.write(json_text(value))


def answer_document(model: FactorGraph, answer: Answer) -> dict[str, Any]:
    """Build the JSON form of an answer: probabilities by label, figures of real variables."""
    return {
        "status": answer.status,
        "log_partition": answer.log_partition,
        "log_partition_status": answer.partition.status,
        "stderr": answer.stderr,
        "interval": answer.interval,
        "bracket": answer.bracket,
        "ess": answer.ess,
        "khat": answer.khat,
        "visible_share": answer.visible_share,
        "doubts": answer.doubts,
        "notes": answer.notes,
        "method": answer.method,
        "seconds": answer.seconds,
        "marginals": {
            name: row.summary()
            if isinstance(row, RealMarginal)
            else dict(zip(model.variables[model.index(name)].states, row.tolist(), strict=True))
            for name, row in answer.marginals.items()
        },
    }


def marginals_csv(model: FactorGraph, answer: Answer) -> str:
    """Write one row a state: variable, state, probability, its error, status.

    A real variable has a row for each figure, named where a state would be; in models with such
    variables the column is called ``value``.
    """
    marginals = answer.marginals
    is_discrete = not any(isinstance(found, RealMarginal) for found in marginals.values())
    heading = "probability" if is_discrete else "value"
    rows: list[Sequence[object]] = [("variable", "state", heading, "stderr", "status")]
    for name, marginal in marginals.items():
        if isinstance(marginal, RealMarginal):
            rows += [
                (name, figure, repr(value), repr(error), answer.status)
                for figure, value, error in _figures_of(marginal)
            ]
            continue
        found = answer.marginals.estimate(name)
        states = model.variables[model.index(name)].states
        numbers = zip(states, np.atleast_1d(found.value), np.atleast_1d(found.stderr), strict=True)
        rows += [
            (name, state, repr(float(p)), repr(float(e)), answer.status) for state, p, e in numbers
        ]
    return csv_text(rows)


def _figures_of(marginal: RealMarginal) -> Iterator[tuple[str, float, float]]:
    """Name, value and standard error of each figure of a real variable."""
    yield "mean", marginal.mean, marginal.stderr
    yield "deviation", marginal.deviation, marginal.deviation_stderr
    errors = marginal.quantile_stderr(np.array(QUANTILES)).tolist()
    for (quantile, value), error in zip(marginal.quantiles.items(), errors, strict=True):
        yield f"{100 * quantile:g} %", value, error


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Write rows as CSV; what is not a number is left blank."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows(["" if _is_nan(cell) else cell for cell in row] for row in rows)
    return stream.getvalue()


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def json_text(value: object) -> str:
    """Write a result as one JSON document, with null for what is not a finite number."""
    return json.dumps(_plain(value), indent=2, allow_nan=False) + "\n"


def emit(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file that appears complete or not at all."""
    if output is None:
        sys.stdout.write(text)
    else:
        replace_file(output, text.encode())
        note(f"written to {output}")


@contextmanager
def writing(output: Path | None) -> Iterator[Write]:
    """Open what a long text is written to as it comes: the screen, or a file.

    A file appears complete or not at all.
    """
    if output is None:
        yield sys.stdout.write
        return
    with replacing(output) as stream:

        def write(text: str) -> None:
            try:
                stream.write(text.encode())
            except OSError as error:  # said here, where it is known which file it is
                reason = error.strerror or str(error)
                raise OutputError(f"cannot write {output}: {reason}") from None

        yield write
    note(f"written to {output}")


def json_line(value: object) -> str:
    """Write a part of a JSON document on one line, with null for what is not a finite number."""
    return json.dumps(_plain(value), allow_nan=False)


def figures_csv(rows: Mapping[str, Any]) -> None:
    """Print names and values, one pair a row."""
    sys.stdout.write(csv_text([("name", "value"), *rows.items()]))


def flat(value: Plan | ModelReport) -> dict[str, Any]:
    """Return the plain fields of a plan or report, without what only an answer needs."""
    plain = _plain(value)
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.repr
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number
    return value
