"""``deltaai plan`` and ``deltaai check``: what a model is like, and what an answer would cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from deltaai.answering import check as check_model
from deltaai.answering import plan as make_plan
from deltaai.arguments import checked_bytes
from deltaai.cli import show
from deltaai.cli.parsing import parse_evidence
from deltaai.io import read


def run_plan(
    file: Path,
    evidence: Sequence[str],
    evidence_file: Path | None,
    *,
    memory_limit: str | None,
    time_limit: float | None,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Show the plan of a question."""
    model = read(file)
    planned = make_plan(
        model,
        parse_evidence(evidence, evidence_file, model),
        memory_limit=checked_bytes(memory_limit),
        time_limit=time_limit,
    )
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


def run_check(file: Path, *, memory_limit: str | None, is_json: bool, is_csv: bool) -> None:
    """Show what a model is like, and what looks wrong in it."""
    report = check_model(read(file), memory_limit=checked_bytes(memory_limit))
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
