"""How near the answers to a folder of problems are to its solutions: a table and a summary.

An answer that is not called `untrusted` is a claim. It holds if log10 Z is within 0.05 of the
solution and all marginals within 0.02.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deltaai.display import plural
from deltaai.errors import DeltaAIError, format_bytes
from deltaai.experiments.contest.problems import Problem
from deltaai.experiments.contest.results import Result, Rules
from deltaai.experiments.contest.scores import (
    hellinger,
    largest_difference,
    log10_error,
    score_of,
    trivial_log_partition,
    uniform_marginals,
)
from deltaai.experiments.harness.part_files import describe_machine
from deltaai.io import read, read_evidence, read_log10_partition, read_marginals

WITHIN_LOG10, WITHIN_MARGINAL = 0.05, 0.02
UNTRUSTED = "untrusted"


@dataclass(frozen=True)
class Judged:
    """A result beside the solutions that are known.

    Parameters
    ----------
    result : what came of the problem.
    truth : log10 Z of the solution.
    log10_error : distance of log10 Z from it.
    hellinger : mean Hellinger distance of the marginals of unobserved variables.
    marginal_error : their largest difference.
    partition_score, marginal_score : points from 0 to 100; none without a solution.
    remark : why there is no comparison, though there is a solution.
    """

    result: Result
    truth: float | None = None
    log10_error: float | None = None
    hellinger: float | None = None
    marginal_error: float | None = None
    partition_score: float | None = None
    marginal_score: float | None = None
    remark: str = ""

    @property
    def claim(self) -> str:
        """What became of what was claimed: ``holds``, ``wrong``, ``none``, or ``unknown``."""
        result = self.result
        if not result.is_answered or result.overrun:
            return "none"
        checks = []
        if result.partition_status != UNTRUSTED and self.log10_error is not None:
            checks.append(self.log10_error <= WITHIN_LOG10)
        if result.status != UNTRUSTED and self.marginal_error is not None:
            checks.append(self.marginal_error <= WITHIN_MARGINAL)
        if not checks:
            is_silent = UNTRUSTED in (result.status, result.partition_status)
            return "none" if is_silent else "unknown"
        return "holds" if all(checks) else "wrong"

    @property
    def reason(self) -> str:
        """Why there is no answer, none that counts, or no comparison."""
        return self.result.reason or self.result.overrun or self.remark

    def row(self) -> dict[str, object]:
        """All figures by name; nothing where there is none."""
        result = self.result
        return {
            "problem": result.name,
            "variables": result.num_variables,
            "observed": result.num_observed,
            "method": result.method,
            "status": result.status,
            "log_z_status": result.partition_status,
            "log10_z": result.log10_partition,
            "log10_stderr": result.log10_stderr,
            "solution_log10_z": self.truth,
            "log10_error": self.log10_error,
            "hellinger": self.hellinger,
            "largest_marginal_error": self.marginal_error,
            "score_pr": self.partition_score,
            "score_mar": self.marginal_score,
            "claim": self.claim,
            "seconds": round(result.seconds, 3),
            "cpu_seconds": round(result.cpu_seconds, 3),
            "memory_bytes": result.memory,
            "reason": self.reason,
        }


def judged(problem: Problem, result: Result, marginals: Path | None) -> Judged:
    """Hold a result against the solutions of its problem.

    Parameters
    ----------
    problem : whose files are read again.
    result : what came of it.
    marginals : the file of its marginals, if it was answered.
    """
    if problem.partition is None and problem.marginals is None:
        return Judged(result)
    try:
        return _compared(problem, result, marginals)
    except DeltaAIError as error:
        return Judged(result, remark=" ".join(str(error).split()))


def _compared(problem: Problem, result: Result, marginals: Path | None) -> Judged:
    model = read(problem.model)
    observed = {} if problem.evidence is None else read_evidence(problem.evidence, model)
    rest = model.condition(observed)
    truth = error = partition_score = distance = difference = marginal_score = None
    if problem.partition is not None:
        truth = read_log10_partition(problem.partition)
        if result.log10_partition is not None:
            error = log10_error(result.log10_partition, truth)
        trivial = log10_error(trivial_log_partition(rest) / math.log(10), truth)
        partition_score = 0.0 if result.overrun else score_of(error, trivial)
    if problem.marginals is not None:
        free = [v for v, one in enumerate(model.variables) if one.name not in observed]
        solution = read_marginals(problem.marginals, model)
        right = [solution[v] for v in free]
        if marginals is not None:
            rows = read_marginals(marginals, model)
            found = [rows[v] for v in free]
            distance, difference = hellinger(found, right), largest_difference(found, right)
        every = uniform_marginals(model)
        trivial = hellinger([every[v] for v in free], right)
        marginal_score = 0.0 if result.overrun else score_of(distance, trivial)
    return Judged(result, truth, error, distance, difference, partition_score, marginal_score)


def table_text(found: Sequence[Judged]) -> str:
    """All figures of all problems as CSV."""
    stream = io.StringIO()
    rows = [one.row() for one in found]
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def summary_text(
    found: Sequence[Judged], rules: Rules, command: str, today: datetime.date | None = None
) -> str:
    """Write the summary in Markdown.

    Parameters
    ----------
    found : the problems.
    rules : that held.
    command : what a reader types to get the same.
    today : date of the summary; the real one by default.
    """
    lines = [
        "# UAI problems",
        "",
        f"{plural(len(found), 'problem')}, {rules.seconds:g} s and "
        f"{format_bytes(int(rules.memory))} each, one core, method `{rules.method}`, "
        f"seed {rules.seed}.",
        "",
        "| problem | method | status: marginals, log Z | log10 Z | solution | off by | Hellinger | "
        "worst marginal | PR | MAR | claim | seconds | memory |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    lines += [_line(one) for one in found]
    lines += ["", *totals(found), ""]
    lines += [f"- {one.result.name}: {one.reason}" for one in found if one.reason]
    lines += [
        "",
        "PR and MAR are points: 100 is the solution, 0 is no better than an answer that knows "
        "nothing (uniform marginals, and independent factors for log Z), no answer, or one that "
        "broke the limits. Errors are |log10 Z - log10 Z*| and the mean Hellinger distance of "
        "marginals of unobserved variables. "
        f"A claim is an answer that is not called {UNTRUSTED}; it holds if log10 Z is "
        f"within {WITHIN_LOG10:g} and marginals within {WITHIN_MARGINAL:g}. Memory is what was "
        "held beyond the loaded program. Seconds are of the clock.",
        "",
        f"- Machine: {describe_machine()}",
        *([f"- Command: `{command}`"] if command else []),
        f"- Date: {(today or datetime.datetime.now(datetime.UTC).date()).isoformat()}",
    ]
    return "\n".join(lines) + "\n"


def _line(one: Judged) -> str:
    result = one.result
    status = f"{result.status}, {result.partition_status}" if result.is_answered else "no answer"
    cells = (
        result.name,
        result.method,
        status,
        _written(result.log10_partition, ".6g"),
        _written(one.truth, ".6g"),
        _written(one.log10_error, ".1e"),
        _written(one.hellinger, ".1e"),
        _written(one.marginal_error, ".1e"),
        _written(one.partition_score, ".2f"),
        _written(one.marginal_score, ".2f"),
        {"wrong": "**wrong**", "none": "", "unknown": ""}.get(one.claim, one.claim),
        f"{result.seconds:.2f}",
        format_bytes(result.memory),
    )
    return f"| {' | '.join(cells)} |"


def _written(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def totals(found: Sequence[Judged]) -> tuple[str, ...]:
    """Mean points, and what became of answers and claims, a line each."""
    lines = []
    for label, scores in (
        ("PR", [one.partition_score for one in found]),
        ("MAR", [one.marginal_score for one in found]),
    ):
        known = [score for score in scores if score is not None]
        if known:
            mean = sum(known) / len(known)
            lines.append(
                f"{label}: {mean:.2f} points, the mean of {plural(len(known), 'problem')}."
            )
    num_answered = sum(one.result.is_answered and not one.result.overrun for one in found)
    claims = [one.claim for one in found]
    lines.append(
        f"{num_answered} answered, {len(found) - num_answered} not; of their claims "
        f"{claims.count('holds')} hold and {claims.count('wrong')} are wrong."
    )
    return tuple(lines)
