"""Many rows of evidence against one model: arrays in, arrays out, all rows by one method.

How rows are answered is the matter of :mod:`deltaai.answering.row_answerer`; tables in files, of
any length, are answered block by block in :mod:`deltaai.answering.table_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.answering.questions import Question, resolve
from deltaai.answering.row_answerer import CHECKED_ROWS, METHODS, NUM_SAMPLES, RowAnswerer
from deltaai.answering.row_pattern import RowPattern
from deltaai.answering.rows_found import RowsFound
from deltaai.answering.table_answer import TableAnswer
from deltaai.arguments import MOST_SAMPLES, checked_count
from deltaai.budget import Budget
from deltaai.devices import CPU, Device
from deltaai.errors import EvidenceError
from deltaai.fitting import Sampler
from deltaai.io import rows_from_table
from deltaai.models import FactorGraph, has_values
from deltaai.progress import Fraction, Reports, reporting
from deltaai.training import TrainingProgress
from deltaai.trust import Asked, asked_names, refuse_joints


def query_table(
    source: FactorGraph | Sampler | str | Path,
    evidence: object,
    of: Sequence[Asked] | None = None,
    *,
    method: str = "auto",
    num_samples: int | None = None,
    samples: int = 0,
    check_rows: int = CHECKED_ROWS,
    check_samples: int | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    device: Device = None,
    progress: bool | Fraction | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
    **settings: Any,  # noqa: ANN401
) -> TableAnswer:
    """Posterior probabilities for many rows of evidence.

    Parameters
    ----------
    source : a model, a sampler that was trained for one, or the path of a file with either.
    evidence : a ``DataFrame`` with a column for each variable that may be observed and blanks where
        it is not, a list of mappings, or a tensor of states with -1 for unknown.
    of : the variables to report; all by default.
    method : ``"auto"`` is exact where the tables fit, ``"exact"``, or ``"sampler"``.
    num_samples : samples to draw for a row, where rows are sampled (1,000).
    samples : states to return for each row.
    check_rows : rows that get a second opinion at most, spread over the table, where rows are
        sampled; the others are ``"unchecked"``.
    check_samples : samples of a second opinion (4,000).
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds that may be used, from the call on; rows that are not reached say so in
        their doubts.
    seed : of all randomness.
    device : where models and samplers are put first, such as ``"cuda"``: samplers are trained and
        asked there. Exact tables are computed on the CPU, and samples are judged there. By default,
        where the model is.
    progress : whether to show bars while it takes long; by default in a terminal and in a notebook.
        A function is called with the fraction of the rows that is done.
    watch : called after every update of training.
    settings : of training, if a sampler has to be trained: what ``fit`` takes, such as ``steps``.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> answer = query_table(zoo.sprinkler(), [{"wet_grass": "yes"}, {}], of=["rain"])
    >>> answer.probabilities[:, 1].round(3).tolist(), answer.status
    ([0.708, 0.5], ('exact', 'exact'))
    """
    return query_table_within(
        Budget.of(memory_limit, time_limit),
        source,
        evidence,
        of,
        method=method,
        num_samples=num_samples,
        samples=samples,
        check_rows=check_rows,
        check_samples=check_samples,
        seed=seed,
        device=device,
        progress=progress,
        watch=watch,
        **settings,
    )


def query_table_within(
    budget: Budget,
    source: FactorGraph | Sampler | str | Path,
    evidence: object,
    of: Sequence[Asked] | None = None,
    *,
    method: str = "auto",
    num_samples: int | None = None,
    samples: int = 0,
    check_rows: int = CHECKED_ROWS,
    check_samples: int | None = None,
    seed: int = 0,
    device: Device = None,
    progress: bool | Fraction | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
    **settings: Any,  # noqa: ANN401
) -> TableAnswer:
    """Answer like :func:`query_table`, by a clock that runs already."""
    with reporting(progress, watch, "answering") as reports:
        question = resolve(
            source,
            evidence,
            method=method,
            methods=METHODS,
            num_samples=num_samples,
            usual_samples=NUM_SAMPLES,
            check_samples=check_samples,
            budget=budget,
            seed=seed,
            device=device,
        )
        return _answered(question, of, samples, check_rows, settings, reports)


def _answered(
    question: Question,
    of: Sequence[Asked] | None,
    samples: int,
    check_rows: int,
    settings: dict[str, Any],
    reports: Reports,
) -> TableAnswer:
    """Answer all rows, and tell those who listen how far it is."""
    samples = checked_count("samples", samples, 0, MOST_SAMPLES)
    model, budget = question.model, question.budget
    rows = checked_rows(question.evidence, model)
    asked = refuse_joints(asked_names(model, of), "a table of cases", "ask for one case at a time")
    found = RowsFound.within(budget, model, rows, asked, samples)
    found.notes = question.notes
    answerer = RowAnswerer.of(
        question.source,
        RowPattern.of([rows], model.num_variables, budget),
        budget.with_memory(budget.memory - found.num_bytes),
        asked,
        method=question.method,
        num_samples=question.num_samples,
        samples=samples,
        check_rows=check_rows,
        check_samples=question.check_samples,
        seed=question.seed,
        watch=reports.training,
        settings=settings,
        alone=lambda: [found.observed(row) for row in range(len(rows))],
    )
    answerer.fill(found, reports.fraction)
    return found.answer(answerer.method, question.started)


def checked_rows(evidence: object, model: FactorGraph) -> Int[Tensor, "row var"]:
    """Rows of evidence as states, -1 for unknown, from whatever holds them."""
    if not isinstance(evidence, Tensor):
        return rows_from_table(evidence, model)
    expected = f"integers of shape (rows, {model.num_variables}), with -1 for unknown"
    if not has_values(evidence) or evidence.ndim != 2 or evidence.shape[1] != model.num_variables:
        raise EvidenceError(f"rows have shape {tuple(evidence.shape)}: give {expected}")
    is_whole = not (evidence.is_floating_point() or evidence.is_complex())
    if is_whole and evidence.dtype != torch.bool:
        rows = evidence.long().to(CPU)  # first, for unsigned integers know no -1
        if not bool(((rows < -1) | (rows >= model.num_states.to(CPU))).any()):
            return rows
    raise EvidenceError(f"rows hold values that are no states: give {expected}")
