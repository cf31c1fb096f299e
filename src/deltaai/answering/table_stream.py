"""Rows of evidence that are read, answered and handed on a block at a time.

Memory stays the same however many rows there are. A file is read twice: first to see which
variables its rows observe, and whether all of its cells can be read, then to answer. What comes
from a pipe is answered as it comes, if that can be done exactly whatever rows will come; otherwise
it has to be put on the disk first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from deltaai.answering.questions import Question
from deltaai.answering.row_answerer import RowAnswerer
from deltaai.answering.row_pattern import RowPattern, observed_in, rows_at_once
from deltaai.answering.rows_found import RowsFound
from deltaai.answering.table_answer import TableAnswer
from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError
from deltaai.fitting import Sampler
from deltaai.io import CaseStream
from deltaai.progress import Fraction, Reports


def query_stream(question: Question, reports: Reports) -> Iterator[TableAnswer]:
    """Posterior probabilities for the rows of a file or a pipe, some rows at a time.

    Parameters
    ----------
    question : about a table; its evidence is a :class:`~deltaai.io.CaseStream`.
    reports : are told the fraction of the rows that is done, where that is known, and where
        training stands.

    Yields
    ------
    Answers to the rows of a block; at least one, if only to none.

    Raises
    ------
    TimeLimitError
        If the time was over before the last row; those before it have been handed on.
    """
    model, budget, cases = question.model, question.budget, question.cases
    at_once, taken = rows_at_once(question, budget)
    budget.refuse("one row and its answer", taken // at_once, "raise the limit")
    beside = budget.with_memory(budget.memory - taken)
    pattern = answerer = None
    if not cases.is_repeatable:
        answerer = _for_any_rows(question, beside, reports)
        with budget.watched("the table of evidence"):
            cases = cases if answerer else cases.repeatable(budget)
    if answerer is None:
        with budget.watched("the table of evidence"):
            pattern = RowPattern.of(cases.blocks(at_once), model.num_variables, budget)
        alone = None
        if pattern.num_rows <= at_once:  # a few rows may have exact plans of their own
            alone = partial(_observed, cases, at_once)
        answerer = RowAnswerer.of(question, pattern, beside, reports, alone)
    done, num_rows = 0, None if pattern is None else max(pattern.num_rows, 1)
    blocks = cases.blocks(at_once)
    while True:
        with budget.watched(f"row {done + 1}"):
            rows = next(blocks, None)
        if rows is None:
            break
        if done:
            budget.check(f"row {done + 1}")
        found = RowsFound(question, rows)
        answerer.fill(found, _within(reports.fraction, done, len(rows), num_rows))
        done += found.num_answered
        yield found.answered().answer(answerer.method)
        if found.num_answered < len(rows):
            budget.check(f"row {done + 1}")
    if done == 0:
        dtype = torch.long if model.is_discrete else torch.float64
        nothing = torch.zeros(0, model.num_variables, dtype=dtype, device="cpu")
        yield RowsFound(question, nothing).answer(answerer.method)


def _for_any_rows(question: Question, budget: Budget, reports: Reports) -> RowAnswerer | None:
    """What can answer rows that nobody has seen yet, if anything can."""
    if isinstance(question.source, Sampler):
        return RowAnswerer.of(question, None, budget, reports)
    if question.method == "sampler":
        return None
    try:
        return RowAnswerer.of(replace(question, method="exact"), None, budget, reports)
    except MemoryLimitError:  # it may fit if some variables are always observed
        return None


def _observed(cases: CaseStream, at_once: int) -> list[dict[int, Any]]:
    """Evidence of all rows."""
    return [observed for rows in cases.blocks(at_once) for observed in observed_in(rows)]


def _within(
    progress: Fraction | None, done: int, count: int, num_rows: int | None
) -> Fraction | None:
    """A report of the progress in all rows, from that in a block."""
    if progress is None or num_rows is None:
        return None
    return lambda fraction: progress((done + fraction * count) / num_rows)
