"""How results look in a terminal, and the same as JSON or CSV for other programs."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor

from deltaai.errors import format_bytes, scientific
from deltaai.exact.inference import Progress as ReportFraction
from deltaai.inference import Answer, ModelReport, Plan
from deltaai.models import FactorGraph

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_BAR_WIDTH = 20
_MOST_ROWS = 60
_MOST_COLUMNS = 8


@contextmanager
def progress_bar(label: str) -> Iterator[ReportFraction | None]:
    """Show a bar on the error stream while the body runs; nothing at all in a pipe."""
    if not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bars:
        task = bars.add_task(label, total=1.0)
        yield lambda fraction: bars.update(task, completed=min(fraction, 1.0))


def figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a small two-column table."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(value))
    out.print(table)


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Figures of a plan."""
    return [
        ("width", str(plan.width)),
        ("largest table", f"{quantity(plan.largest_table)} entries"),
        ("all tables", f"{quantity(plan.total_entries)} entries"),
        (
            "memory",
            f"{format_bytes(plan.predicted_bytes)} (limit {format_bytes(plan.memory_limit)})",
        ),
        ("method", plan.method),
        ("because", plan.reason),
    ]


def report_rows(report: ModelReport) -> list[tuple[str, str]]:
    """Figures of a checked model."""
    share = report.num_zeros / report.num_entries if report.num_entries else 0.0
    conditional = f", {report.num_conditional_tables} of them conditional tables"
    return [
        ("variables", f"{report.num_variables} (up to {report.most_states} states)"),
        ("factors", f"{report.num_factors}" + conditional * (report.num_conditional_tables > 0)),
        ("largest scope", f"{report.largest_scope} variables"),
        ("table entries", f"{quantity(report.num_entries)}, {report.num_zeros} zero ({share:.1%})"),
        ("edges", f"{report.num_edges} in {plural(report.num_components, 'component')}"),
    ]


def marginal_table(model: FactorGraph, marginals: Mapping[str, np.ndarray], title: str) -> None:
    """Print probabilities with bars; very long lists are cut, and say so."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    for heading in ("variable", "state"):
        table.add_column(heading, overflow="fold")
    table.add_column("probability", justify="right")
    table.add_column("")
    rows = 0
    for shown, (name, row) in enumerate(marginals.items()):
        if rows > _MOST_ROWS:
            out.print(table)
            out.print(
                f"  ... and {len(marginals) - shown} more variables: "
                "choose with --of, or see all with --csv or --json",
                style="dim",
            )
            return
        states = model.variables[model.index(name)].states
        for position, (state, probability) in enumerate(zip(states, row, strict=True)):
            bar = "█" * round(_BAR_WIDTH * float(probability))
            label = escape(name) if position == 0 else ""
            table.add_row(label, escape(state), f"{probability:.6f}", f"[cyan]{bar}[/]")
        rows += len(states)
    out.print(table)


def samples_table(model: FactorGraph, states: Tensor, title: str) -> None:
    """Print states as labels, one row a sample; wide models show their first variables."""
    shown = model.variables[:_MOST_COLUMNS]
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    for variable in shown:
        table.add_column(escape(variable.name))
    for row in states.tolist():
        table.add_row(*(escape(v.states[k]) for v, k in zip(shown, row, strict=False)))
    out.print(table)
    if len(shown) < model.num_variables:
        more = model.num_variables - len(shown)
        out.print(f"  ... and {more} more variables: see all with --csv or -o FILE", style="dim")


def as_json(value: object) -> None:
    """Print a result as one JSON document."""
    json.dump(_plain(value), sys.stdout, indent=2)
    sys.stdout.write("\n")


def answer_document(model: FactorGraph, answer: Answer) -> dict[str, Any]:
    """Build the JSON form of an answer: probabilities by label."""
    return {
        "status": answer.status,
        "log_partition": answer.log_partition,
        "stderr": answer.stderr,
        "ess": answer.ess,
        "khat": answer.khat,
        "doubts": list(answer.doubts),
        "seconds": answer.seconds,
        "marginals": {
            name: dict(zip(model.variables[model.index(name)].states, row.tolist(), strict=True))
            for name, row in answer.marginals.items()
        },
    }


def marginals_csv(model: FactorGraph, answer: Answer) -> None:
    """Print one row a state: variable, state, probability, status."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("variable", "state", "probability", "status"))
    for name, row in answer.marginals.items():
        for state, probability in zip(
            model.variables[model.index(name)].states, row.tolist(), strict=True
        ):
            writer.writerow((name, state, repr(probability), answer.status))


def figures_csv(rows: Mapping[str, Any]) -> None:
    """Print names and values, one pair a row."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("name", "value"))
    writer.writerows(rows.items())


def flat(value: Plan | ModelReport) -> dict[str, Any]:
    """Return the plain fields of a plan or report, without its elimination order."""
    plain = _plain(value)
    assert isinstance(plain, dict)
    return plain


def quantity(number: int) -> str:
    """Write a count for people.

    >>> quantity(1234), quantity(5_000_000), quantity(2**70)
    ('1,234', '5,000,000', '1.2e+21')
    """
    return f"{number:,}" if number < 10**12 else scientific(number)


def plural(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name != "elimination"
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
