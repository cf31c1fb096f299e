"""A folder of UAI problems under the rules of a contest: one core, a limit of time and of memory.

Every problem is one question (:func:`deltaai.query`) in a process of its own, so that memory is
counted for each and one that dies takes no other with it. What a problem leaves behind is in
:mod:`deltaai.experiments.contest.results`; whoever runs the same folder again goes on where it was.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deltaai.answering import query
from deltaai.budget import Budget
from deltaai.errors import DeltaAIError, FormatError
from deltaai.experiments.contest.problems import Problem, problems_in
from deltaai.experiments.contest.results import (
    FOLDER,
    Result,
    Rules,
    read_result,
    result_path,
    write_result,
)
from deltaai.experiments.contest.summary import (
    Judged,
    judged,
    summary_text,
    table_text,
    totals,
)
from deltaai.experiments.harness.parts import Part, Row
from deltaai.experiments.harness.reproduce import FolderError
from deltaai.experiments.harness.runner import Outcome, Standing, run_parts
from deltaai.io import (
    is_there,
    log10_partition_text,
    marginals_text,
    read,
    read_evidence,
    replace_file,
)

NAME = "uai"
_RULES = "rules"


@dataclass(frozen=True)
class Contest:
    """What a call did.

    Parameters
    ----------
    files : what was written: table and summary.
    judged : all problems that were asked for, with their errors and scores.
    num_run, num_kept : problems that were answered now, and those that were before.
    """

    files: tuple[Path, Path]
    judged: tuple[Judged, ...]
    num_run: int
    num_kept: int

    @property
    def totals(self) -> tuple[str, ...]:
        """Mean points, and what became of answers and claims, a line each."""
        return totals(self.judged)


def run_contest(
    folder: Path,
    out: Path,
    rules: Rules,
    *,
    names: Collection[str] | None = None,
    resume: bool = False,
    command: str = "",
    watch: Callable[[Standing], None] | None = None,
) -> Contest:
    """Answer the problems of a folder that have no result yet, and write table and summary.

    Parameters
    ----------
    folder : with the problems.
    out : where results go; made if it is not there.
    rules : that hold for each problem.
    names : of the problems to answer; all by default.
    resume : whether ``out`` may hold results.
    command : what to print in the summary as the way to get it.
    watch : called whenever a problem begins or ends.

    Raises
    ------
    ConfigError
        If the folder holds no problems, or not those that are named.
    FolderError
        If there is something in ``out`` and ``resume`` is not set, or it is no place for results.
    """
    problems = problems_in(folder, names)
    _open(out, resume=resume)
    kept = {problem.name for problem in problems if _has_result(out, problem, rules)}
    missing = [problem for problem in problems if problem.name not in kept]
    parts = [
        Part(problem.name, NAME, rules.seed, "small", {"seconds": rules.seconds})
        for problem in missing
    ]
    by_name = {problem.name: problem for problem in missing}
    died: dict[str, Result] = {}

    def keep(outcome: Outcome) -> None:
        if outcome.error:  # no answer now; it is tried again when the same folder is
            name = outcome.part.model
            died[name] = Result(name, rules, seconds=outcome.seconds, reason=outcome.error)

    run_parts(partial(answer_problem, by_name, out, rules), parts, 1, keep, watch, is_apart=True)
    found = tuple(
        judged(problem, died[problem.name], None)
        if problem.name in died
        else judged(problem, *_result(out, problem))
        for problem in problems
    )
    files = (out / "uai.csv", out / "uai.md")
    replace_file(files[0], table_text(found).encode())
    replace_file(files[1], summary_text(found, rules, command).encode())
    return Contest(files, found, len(missing), len(kept))


def answer_problem(
    problems: dict[str, Problem], out: Path, rules: Rules, part: Part
) -> Iterator[Row]:
    """Answer one problem, in a process of its own, and write down what came of it."""
    problem = problems[part.model]
    before, wall, cpu = _peak_bytes(), time.perf_counter(), time.process_time()
    result = _answered(problem, out, rules)
    result = replace(
        result,
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - cpu,
        memory=max(_peak_bytes() - before, 0),
    )
    write_result(out, result)
    yield Row(0, result.seconds, "seconds", result.seconds)


def _answered(problem: Problem, out: Path, rules: Rules) -> Result:
    """Ask, and write solutions; or say why there is none."""
    result = Result(problem.name, rules)
    memory = int(rules.memory)
    budget = Budget.of(memory, rules.seconds)
    try:
        with budget.watched("the problem"):
            model = read(problem.model)
            observed = {} if problem.evidence is None else read_evidence(problem.evidence, model)
        result = replace(result, num_variables=model.num_variables, num_observed=len(observed))
        answer = query(
            model,
            observed,
            method=rules.method,
            seed=rules.seed,
            memory_limit=memory,
            time_limit=max(budget.seconds_left, 1e-3),
            progress=False,
        )
    except DeltaAIError as error:
        return replace(result, reason=" ".join(str(error).split()))
    log10_partition = answer.log_partition / math.log(10)
    rows = [answer.marginals[variable.name] for variable in model.variables]
    for kind, text in (
        ("PR", log10_partition_text(log10_partition)),
        ("MAR", marginals_text(rows)),
    ):
        replace_file(result_path(out, problem.name, kind), text.encode())
    return replace(
        result,
        method=answer.method,
        status=answer.status,
        partition_status=answer.partition.status,
        log10_partition=log10_partition,
        log10_stderr=answer.stderr / math.log(10) if answer.ess is not None else None,
        doubts=answer.doubts,
    )


def _peak_bytes() -> int:
    """Most memory that this process has held so far."""
    try:
        import resource  # noqa: PLC0415 - not every system has it
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def _open(out: Path, *, resume: bool) -> None:
    """Make the folder ready."""
    try:
        content: Sequence[Path] = list(out.iterdir()) if out.exists() else []
        if content and not resume:
            raise FolderError(
                f"{out} is not empty: continue what is there with --resume, or choose another "
                "folder"
            )
        if content and not (out / FOLDER).is_dir():
            raise FolderError(
                f"{out} is not empty and holds no answers (there is no {FOLDER}/ in it): choose "
                "another folder"
            )
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot use {out} for results: {error.strerror}") from None


def _has_result(out: Path, problem: Problem, rules: Rules) -> bool:
    """Whether it was answered, or refused, under these rules."""
    try:
        return read_result(result_path(out, problem.name)).rules == rules
    except FormatError:  # there is none yet, or it is damaged
        return False


def _result(out: Path, problem: Problem) -> tuple[Result, Path | None]:
    """What came of it, and where its marginals are."""
    result = read_result(result_path(out, problem.name))
    marginals = result_path(out, problem.name, "MAR")
    return result, marginals if result.is_answered and is_there(marginals) else None
