"""``deltaai plan`` and ``deltaai check``: what a model is like, and what an answer would cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from deltaai.answering import check_within, plan_within
from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.cli.sources import read_model, read_observed


def run_plan(
    file: Path,
    evidence: Sequence[str],
    evidence_file: Path | None,
    *,
    budget: Budget,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Show the plan of a question."""
    model = read_model(file, budget)
    observed = read_observed(evidence, evidence_file, model, budget)
    planned = plan_within(budget, model, observed)
    if is_json:
        show.as_json(planned)
    elif is_csv:
        plain = show.flat(planned)
        plain["options"] = "; ".join(option.method for option in planned.options)
        show.figures_csv(plain)
    else:
        given = f", {planned.num_observed} observed" if planned.num_observed else ""
        title = f"Plan for {file.name} ({show.plural(planned.num_variables, 'variable')}{given})"
        show.figures(title, planned.rows())


def run_check(file: Path, *, budget: Budget, is_json: bool, is_csv: bool) -> None:
    """Show what a model is like, and what looks wrong in it."""
    report = check_within(budget, read_model(file, budget))
    if is_json:
        show.as_json(report)
    elif is_csv:
        plain = show.flat(report)
        planned = plain.pop("plan")
        planned["options"] = "; ".join(option.method for option in report.plan.options)
        plain["warnings"] = "; ".join(plain["warnings"])
        show.figures_csv({**plain, **{f"plan.{name}": value for name, value in planned.items()}})
    else:
        show.figures(f"{file.name} is readable", show.report_rows(report))
        show.figures("Cost of an answer", report.plan.rows())
        for warning in report.warnings:
            show.out.print(f"[yellow]note[/] {escape(warning)}", soft_wrap=True)
        if not report.warnings:
            show.out.print("[green]nothing suspicious[/]")
