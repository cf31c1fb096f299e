"""The summary of an experiment in Markdown: who got how far, and how fast.

For each model a table with the final value of every method (mean ± standard deviation over seeds)
and the time it took to come down to given values. That time is the median over seeds, where a seed
that never got there counts as later than all others; after it stands how many times Delta-AI's own
time it is. The first measurement at or below a value counts, even if later ones rise again. Below
the table stands in how many runs a global phase followed the local updates.

This file measures nothing and draws nothing.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.parts import Experiment
from deltaai.experiments.harness.results import (
    Curve,
    GlobalPhase,
    curves_of,
    global_phases_of,
    ground_truth_word,
)

REFERENCE = "delta"  # the method that the others are compared with


def summary_text(
    experiment: Experiment,
    finished: Sequence[FinishedPart],
    *,
    command: str,
    remarks: Sequence[str] = (),
    today: datetime.date | None = None,
) -> str:
    """Write the summary.

    Parameters
    ----------
    experiment : what was run.
    finished : its parts, as far as they are there.
    command : what a reader types to get the same.
    remarks : what else must be known, such as parts that failed.
    today : date of the summary; the real one by default.
    """
    found = curves_of(finished, experiment.metric)
    phases = global_phases_of(finished)
    scales = sorted({each.part.scale for each in finished})
    lines = [f"# {experiment.title}", "", experiment.description, ""]
    for model in experiment.model_labels:
        if model in found:
            lines += [f"## {experiment.model_labels[model]}", ""]
            lines += _markdown(model_table(experiment, found[model], model))
            if experiment.end_metrics:
                lines += ["", *_markdown(end_table(experiment, finished, model))]
            lines += ["", *_fact_lines(experiment, finished, model), ""]
            lines += _phase_lines(experiment, phases.get(model, {}))
    lines += [
        f"Values are {experiment.metric_label}, mean ± standard deviation over seeds. Times are "
        f"medians over seeds, in seconds of the method's own clock ({_clock(experiment)})"
        + _explained(experiment),
        "",
    ]
    if experiment.notes:
        lines += [experiment.notes.strip(), ""]
    lines += [f"- **Note**: {remark}" for remark in remarks]
    machines = sorted({f"{each.machine}, {each.jobs} part(s) at a time" for each in finished})
    date = today or datetime.datetime.now(datetime.UTC).date()
    lines += [
        f"- Scale: {', '.join(scales) or 'none'}",
        *(f"- Machine: {machine}" for machine in machines),
        f"- Command: `{command}`",
        f"- Date: {date.isoformat()}",
    ]
    return "\n".join(lines) + "\n"


def _clock(experiment: Experiment) -> str:
    """What the horizontal axis shows, without its unit."""
    return experiment.time_label.removesuffix(" (seconds)")


def _explained(experiment: Experiment) -> str:
    """What stands behind times, if any are tabulated."""
    if not experiment.thresholds:
        return "."
    own = experiment.method_labels.get(REFERENCE, "Delta-AI")
    return f"; behind them the ratio to {own}, and how many seeds got there if not all did."


def model_table(
    experiment: Experiment, methods: Mapping[str, Sequence[Curve]], model: str = ""
) -> list[tuple[str, ...]]:
    """Cells of the table of one model, its heading first; what is known from elsewhere last."""
    heading = ("method", "seeds", "final value", "run time")
    reaching = tuple(f"time to {threshold:g}" for threshold in experiment.thresholds)
    table = [heading + reaching]
    reference = methods.get(REFERENCE, ())
    for method, label in experiment.method_labels.items():
        if method in methods:
            curves = methods[method]
            times = [
                _time_cell(
                    curves,
                    () if method == REFERENCE else reference,
                    threshold,
                    is_larger_better=experiment.is_larger_better,
                )
                for threshold in experiment.thresholds
            ]
            run_time = _seconds(float(np.median([curve.seconds[-1] for curve in curves])))
            table.append((label, str(len(curves)), _final_cell(curves), run_time, *times))
    for label, value in experiment.references.get(model, {}).items():
        table.append((label, "", f"{value:g}", "", *("" for _ in experiment.thresholds)))
    return table


def end_table(
    experiment: Experiment, finished: Sequence[FinishedPart], model: str
) -> list[tuple[str, ...]]:
    """Cells of the table of last values of further metrics, its heading first."""
    table = [("method", *experiment.end_metrics.values())]
    found = {
        metric: curves_of(finished, metric).get(model, {}) for metric in experiment.end_metrics
    }
    for method, label in experiment.method_labels.items():
        cells = [
            _final_cell(curves[method]) if method in curves else "" for curves in found.values()
        ]
        if any(cells):
            table.append((label, *cells))
    return table


def _fact_lines(experiment: Experiment, finished: Sequence[FinishedPart], model: str) -> list[str]:
    """What is the same for all methods: facts of the experiment, or else where truth came from."""
    if not experiment.facts:
        return [f"Ground truth: {ground_truth_word(finished, model)}."]
    facts = []
    for metric, label in experiment.facts.items():
        curves = [
            curve for each in curves_of(finished, metric).get(model, {}).values() for curve in each
        ]
        facts += [f"{label} {_final_cell(curves[:1])}"] if curves else []
    return [f"{'; '.join(facts)}."] if facts else []


def _phase_lines(experiment: Experiment, methods: Mapping[str, Sequence[GlobalPhase]]) -> list[str]:
    """A sentence for each method that may have a global phase."""
    lines = []
    for method in (method for method in experiment.method_labels if method in methods):
        runs = methods[method]
        begun = [run for run in runs if run.has_begun]
        line = f"- Global phase of *{experiment.method_labels[method]}*: in {len(begun)} of "
        line += f"{len(runs)} runs"
        if begun:
            start = _seconds(float(np.median([run.start for run in begun])))
            num_undone = sum(run.is_undone for run in begun)
            line += f", from {start} on (median of these), undone in {num_undone}"
        lines.append(f"{line}.")
    return [*lines, ""] if lines else []


def median_time(
    curves: Sequence[Curve], threshold: float | int, *, is_larger_better: bool = False
) -> float:
    """Median over seeds of the time to reach a value; infinite if half of them do not."""
    times = sorted(
        curve.time_to_reach(threshold, is_larger_better=is_larger_better) for curve in curves
    )
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


def _time_cell(
    curves: Sequence[Curve],
    reference: Sequence[Curve],
    threshold: float | int,
    *,
    is_larger_better: bool,
) -> str:
    time = median_time(curves, threshold, is_larger_better=is_larger_better)
    text = _seconds(time) if math.isfinite(time) else "not reached"
    if time == 0:
        return "at the start"
    if reference and math.isfinite(time):
        own = median_time(reference, threshold, is_larger_better=is_larger_better)
        if math.isfinite(own) and own > 0:
            text += f" ({time / own:.3g}x)"
    num_reached = sum(
        math.isfinite(curve.time_to_reach(threshold, is_larger_better=is_larger_better))
        for curve in curves
    )
    if 0 < num_reached < len(curves):
        text += f" [{num_reached} of {len(curves)}]"
    return text


def _final_cell(curves: Sequence[Curve]) -> str:
    finals = np.array([curve.final for curve in curves])
    if not np.isfinite(finals).all():
        return f"not finite in {int((~np.isfinite(finals)).sum())} of {len(finals)}"
    mean = f"{finals.mean():,.0f}" if _are_counts(finals) else f"{finals.mean():.4g}"
    spread = 0.0 if len(finals) == 1 else float(finals.std(ddof=1))
    if len(finals) == 1 or (_are_counts(finals) and spread == 0):
        return mean
    return f"{mean} ± {spread:.2g}"


def _are_counts(values: Float64[np.ndarray, "seed"]) -> bool:
    """Whether they are whole numbers that four digits would not show."""
    return bool((values == np.round(values)).all() and (values >= 1e4).any())


def _seconds(seconds: float) -> str:
    """Write a time for people.

    >>> _seconds(0.01234), _seconds(12.34), _seconds(12345.0)
    ('0.0123 s', '12.3 s', '12345 s')
    """
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def _markdown(table: Sequence[Sequence[str]]) -> list[str]:
    rule = "|" + "|".join(["---"] + ["---:"] * (len(table[0]) - 1)) + "|"
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return [lines[0], rule, *lines[1:]]
