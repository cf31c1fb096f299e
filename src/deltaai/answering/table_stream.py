"""Rows of evidence that are read, answered and handed on a block at a time.

Memory stays the same however many rows there are. A file is read twice: first to see which
variables its rows observe, and whether all of its cells can be read, then to answer. What comes
from a pipe is answered as it comes, if that can be done exactly whatever rows will come; otherwise
it has to be put on the disk first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from deltaai.answering.model_report import unnormalised_tables
from deltaai.answering.row_answerer import RowAnswerer
from deltaai.answering.row_pattern import RowPattern, rows_at_once
from deltaai.answering.rows_found import RowsFound, num_pairs
from deltaai.answering.table_answer import TableAnswer
from deltaai.arguments import MOST_SAMPLES, checked_count
from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError
from deltaai.fitting import Sampler
from deltaai.io import CaseStream, Rows
from deltaai.models import FactorGraph
from deltaai.progress import Fraction
from deltaai.trust import asked_names, refuse_joints


def query_stream(
    source: FactorGraph | Sampler,
    cases: CaseStream,
    of: Sequence[str] | None = None,
    *,
    budget: Budget,
    samples: int = 0,
    progress: Fraction | None = None,
    **choices: Any,  # noqa: ANN401
) -> Iterator[TableAnswer]:
    """Posterior probabilities for the rows of a file or a pipe, some rows at a time.

    Parameters
    ----------
    source : a model, or a sampler that was trained for one.
    cases : the rows.
    of : the variables to report; all by default.
    budget : bytes and seconds that may be used.
    samples : states to return for each row.
    progress : called with the fraction of the rows that is done, where that is known.
    choices : what :func:`~deltaai.answering.table_query.query_table` takes, such as ``method``.

    Yields
    ------
    Answers to the rows of a block; at least one, if only to none.

    Raises
    ------
    TimeLimitError
        If the time was over before the last row; those before it have been handed on.
    """
    start = time.perf_counter()
    model = source.model if isinstance(source, Sampler) else source
    asked = refuse_joints(asked_names(model, of), "a table of cases", "ask for one case at a time")
    samples = checked_count("samples", samples, 0, MOST_SAMPLES)
    notes = tuple(unnormalised_tables(model))
    at_once, taken = rows_at_once(model, num_pairs(model, asked), samples, budget)
    budget.refuse("one row and its answer", taken // at_once, "raise the limit")
    beside = budget.with_memory(budget.memory - taken)
    choices |= {"samples": samples}
    pattern = answerer = None
    if not cases.is_repeatable:
        answerer = _at_once(source, beside, asked, choices)
        with budget.watched("the table of evidence"):
            cases = cases if answerer else cases.repeatable(budget)
    if answerer is None:
        with budget.watched("the table of evidence"):
            pattern = RowPattern.of(cases.blocks(at_once), model.num_variables, budget)
        if pattern.num_rows <= at_once:  # a few rows may have exact plans of their own
            choices |= {"alone": lambda: _observed(model, cases.blocks(at_once))}
        answerer = RowAnswerer.of(source, pattern, beside, asked, **choices)
    done, num_rows = 0, None if pattern is None else max(pattern.num_rows, 1)
    blocks = cases.blocks(at_once)
    while True:
        with budget.watched(f"row {done + 1}"):
            rows = next(blocks, None)
        if rows is None:
            break
        if done:
            budget.check(f"row {done + 1}")
        found = RowsFound(model, rows, asked, samples)
        found.notes = notes
        answerer.fill(found, _within(progress, done, len(rows), num_rows))
        done += found.num_answered
        yield found.answered().answer(answerer.method, start)
        if found.num_answered < len(rows):
            budget.check(f"row {done + 1}")
    if done == 0:
        nothing = torch.zeros(0, model.num_variables, dtype=torch.long, device="cpu")
        empty = RowsFound(model, nothing, asked, samples)
        yield empty.answer(answerer.method, start)


def _at_once(
    source: FactorGraph | Sampler, budget: Budget, asked: Sequence[str], choices: dict[str, Any]
) -> RowAnswerer | None:
    """What can answer rows that nobody has seen yet, if anything can."""
    if isinstance(source, Sampler):
        return RowAnswerer.of(source, None, budget, asked, **choices)
    if choices.get("method", "auto") == "sampler":
        return None
    try:
        return RowAnswerer.of(source, None, budget, asked, **(choices | {"method": "exact"}))
    except MemoryLimitError:  # it may fit if some variables are always observed
        return None


def _observed(model: FactorGraph, blocks: Iterator[Rows]) -> list[dict[int, int]]:
    """Evidence of all rows."""
    found = [RowsFound(model, rows, [], 0) for rows in blocks]
    return [block.observed(row) for block in found for row in range(len(block.rows))]


def _within(
    progress: Fraction | None, done: int, count: int, num_rows: int | None
) -> Fraction | None:
    """A report of the progress in all rows, from that in a block."""
    if progress is None or num_rows is None:
        return None
    return lambda fraction: progress((done + fraction * count) / num_rows)
