"""Answers rows of evidence by one method, a block of them at a time.

Where the tables fit, rows are answered exactly, many at a time
(:class:`~deltaai.exact.RowInference`), or one by one if each alone has an exact plan
(:mod:`deltaai.answering.exact_rows`). Otherwise one sampler is trained for all rows: given the
values of a fixed set if every row observes the same variables, for any evidence if not. A row is
judged by its weights and by a second opinion (:mod:`deltaai.trust.verdicts`). In very long tables
some rows, spread over the table, have a second opinion; the others are called ``"unchecked"``, and
if fault is found with a good part of those that were checked they are not trusted either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from deltaai.answering.exact_rows import answer_rows_exactly, taken_down
from deltaai.answering.gaussian_rows import real_rows
from deltaai.answering.questions import Question, refuse_training, suitable_smoothing
from deltaai.answering.row_pattern import RowPattern, rows_at_once
from deltaai.answering.rows_found import RowsFound
from deltaai.budget import Budget
from deltaai.errors import (
    ConfigError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    Setting,
    TimeLimitError,
    WeightError,
)
from deltaai.exact import ExactInference, Remainder, RowInference
from deltaai.fitting import EvidenceFor, Sampler, fit, posteriors_given
from deltaai.models import FactorGraph
from deltaai.progress import Fraction, Reports
from deltaai.randomness import generator_of

# Share of the checked rows that may be faulty before those that were not checked are doubted.
_SHARE_FAULTY = 0.1
_SAMPLED_AT_ONCE = 256  # rows whose evidence is made ready together
_ROWS_SHARE = 0.4  # of the time that training leaves for the rows
_EXACT, _ALONE, _SAMPLED = "elimination of many rows", "elimination, row by row", "sampler"


@dataclass(frozen=True)
class RowAnswerer:
    """A way to answer rows.

    Parameters
    ----------
    method : its name.
    fill : answers all rows of a block, in place, and reports the fraction done.
    """

    method: str
    fill: Callable[[RowsFound, Fraction | None], None]

    @classmethod
    def of(
        cls,
        question: Question,
        pattern: RowPattern | None,
        budget: Budget,
        reports: Reports,
        alone: Callable[[], list[dict[int, Any]]] | None = None,
    ) -> RowAnswerer:
        """Choose the method, and train a sampler if it needs one.

        Parameters
        ----------
        pattern : which variables the rows observe. It may be unknown if no sampler is to be
            trained; then rows may observe anything.
        budget : what may be used beside the memory of the answers.
        alone : gives all rows, to be answered one by one if each has an exact plan of its own.
        """
        source, method, model = question.source, question.method, question.model
        if isinstance(source, Sampler) and method == "exact":
            raise ConfigError(
                Setting("method"), " is 'exact', but a sampler was given: give its model"
            )
        at_once, taken = rows_at_once(question, budget)
        generator = generator_of(question.seed)
        working = budget.with_memory(budget.memory - taken)
        if not isinstance(source, Sampler) and method != "sampler" and not model.is_discrete:
            fill, name = real_rows(question, pattern, working, at_once, generator, alone)
            return cls(name, fill)
        if not isinstance(source, Sampler) and method != "sampler":
            try:
                engine = _engine(model, pattern, working, taken)
            except MemoryLimitError:
                if alone is not None and not question.of_rows.samples:
                    answers = answer_rows_exactly(model, alone(), budget=working)
                    if answers is not None:
                        return cls(_ALONE, partial(taken_down, iter(answers)))
                if method == "exact":
                    raise
            else:
                return cls(_EXACT, partial(_exact, engine, working, at_once, generator))
        if not isinstance(source, Sampler):
            assert pattern is not None  # a sampler is trained for rows that have been seen
            source = _trained(question, pattern, working, reports)
        checks = _Checks(question, None if pattern is None else pattern.num_rows)
        return cls(_SAMPLED, partial(_sampled, source, checks, working, at_once, generator))


def _engine(
    model: FactorGraph, pattern: RowPattern | None, budget: Budget, taken: int
) -> RowInference:
    always = () if pattern is None else pattern.always_observed
    try:
        with budget.watched("the table"):
            return RowInference(model, always, memory_limit=budget.memory)
    except MemoryLimitError as error:  # in the user's figures
        needed, limit = error.predicted_bytes + taken, error.limit_bytes + taken
        raise MemoryLimitError(error.width, needed, limit) from None


def _exact(
    engine: RowInference,
    budget: Budget,
    at_once: int,
    generator: torch.Generator,
    found: RowsFound,
    progress: Fraction | None,
) -> None:
    num_rows = len(found.rows)
    found.stderr[:] = 0.0
    for start in range(0, num_rows, at_once):
        part = slice(start, min(start + at_once, num_rows))

        def report(done: float, part: slice = part) -> None:
            if progress is not None:
                progress((part.start + done * (part.stop - part.start)) / num_rows)

        try:
            answers = engine.answer(found.rows[part], budget.watching("the table", report))
            found.log_partition[part] = answers.log_partition.numpy()
            found.probabilities[part] = answers.marginals[:, found.pairs].numpy()
            found.status[part] = ["exact"] * (part.stop - part.start)
            for row in range(part.start, part.stop):
                if found.log_partition[row] == -np.inf:
                    found.set_impossible(row)
                elif found.samples is not None:
                    budget.check("the table")
                    _sample_exactly(found, row, budget, generator)
        except TimeLimitError:
            found.set_unreached(start)
            return


def _sample_exactly(found: RowsFound, row: int, budget: Budget, generator: torch.Generator) -> None:
    assert found.samples is not None
    kept = found.samples[row]
    with budget.watched("the table"):
        left = Remainder.given(found.model, found.observed(row))
        one = ExactInference(left, memory_limit=budget.memory)
        kept[:] = one.sample(len(kept), generator)


def _trained(question: Question, pattern: RowPattern, budget: Budget, reports: Reports) -> Sampler:
    """A sampler for these rows: given a fixed set if all observe the same, else any evidence."""
    model, always = question.model, pattern.always_observed
    kind: EvidenceFor = "any"
    if pattern.most_observed == 0:
        kind = None
    elif pattern.is_same and len(always) < model.num_variables:
        kind = tuple(always)
    with budget.watched("training"):
        refuse_training(model, budget.memory, kind)
    observed = [model.variables[v].name for v in kind] if isinstance(kind, tuple) else kind
    return fit(
        model,
        evidence=observed,
        most_observed=pattern.most_observed if observed == "any" else None,
        smoothing=suitable_smoothing(model),
        seed=question.seed,
        progress=False,
        watch=reports.training,
        memory_limit=budget.memory,
        time_limit=budget.leaving(_ROWS_SHARE, math.inf),
        **question.of_rows.settings,
    )


@dataclass
class _Checks:
    """Which rows get a second opinion, and what these have found so far.

    Parameters
    ----------
    question : says how many rows get one at most, and the samples of an opinion.
    num_rows : rows of the whole table, if that is known; otherwise rows are checked ever more
        seldom: half of the most at first, and as many again whenever the table has doubled.
    """

    question: Question
    num_rows: int | None
    num_seen: int = 0
    num_checked: int = 0
    faulty: list[str] = field(default_factory=list)
    drawing_seconds: float = 0.0

    def wanted(self, count: int) -> set[int]:
        """Those to be checked among the next rows, by their place among these."""
        first, self.num_seen = self.num_seen, self.num_seen + count
        most_rows = self.question.of_rows.check_rows
        if self.num_rows is None:
            half = max(most_rows // 2, 1)
            numbers = range(first, first + count)
            strides = (1 << max((number // half).bit_length() - 1, 0) for number in numbers)
            places = {k for k, stride in enumerate(strides) if (first + k) % stride == 0}
            return places if most_rows else set()
        spread = np.linspace(0, max(self.num_rows - 1, 0), most_rows).astype(int)
        inside = spread[(spread >= first) & (spread < first + count)]
        return set((inside - first).tolist())

    def has_time(self, budget: Budget, row: int) -> bool:
        """Whether the rows that are left can be drawn even if this one is checked."""
        if budget.time_limit is None:
            return True
        num_left = 0 if self.num_rows is None else self.num_rows - row
        return budget.part(0.5).seconds_left > num_left * self.drawing_seconds / max(row, 1)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why rows that were not checked are not to be trusted."""
        if len(self.faulty) <= _SHARE_FAULTY * self.num_checked:
            return ()
        found = f"{len(self.faulty)} of {self.num_checked} rows that were checked failed"
        return (f"{found}: {self.faulty[0]}",)


def _sampled(
    sampler: Sampler,
    checks: _Checks,
    budget: Budget,
    at_once: int,
    generator: torch.Generator,
    found: RowsFound,
    progress: Fraction | None,
) -> None:
    """Answer rows by samples; some of them get a second opinion."""
    num_rows, at_once = len(found.rows), min(at_once, _SAMPLED_AT_ONCE)
    first, unchecked, question = checks.num_seen, [], checks.question
    wanted = checks.wanted(num_rows)
    for start in range(0, num_rows, at_once):
        numbers = range(start, min(start + at_once, num_rows))
        rows = [found.observed(row) for row in numbers]
        drawing = time.perf_counter()
        drawn_rows = posteriors_given(sampler, rows, question.num_samples, generator, budget=budget)
        for row, drawn in enumerate(drawn_rows, start):
            if budget.is_over:
                found.set_unreached(row)
                return
            if progress is not None:
                progress(row / num_rows)
            checks.drawing_seconds += time.perf_counter() - drawing
            is_checked = row in wanted and checks.has_time(budget, first + row + 1)
            try:
                judged = sampler.judged(
                    drawn,
                    generator,
                    check_samples=question.check_samples if is_checked else 0,
                    budget=budget.part(0.5),
                )
            except (WeightError, ImpossibleEvidenceError):
                found.set_unsampled(row)
                continue
            found.set(row, judged)
            if is_checked:
                checks.num_checked += 1
                checks.faulty += found.doubts[row][:1]
            else:
                unchecked.append(row)
            if found.samples is not None:
                kept = judged.samples.sample_apart(found.samples.shape[1], generator)
                found.samples[row] = kept
            drawing = time.perf_counter()
    for row in unchecked:
        found.doubt(row, checks.doubts)
