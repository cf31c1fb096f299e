"""Many rows of evidence against one model: arrays in, arrays out, all rows by one method.

How rows are answered is the matter of :mod:`deltaai.answering.row_answerer`; tables in files, of
any length, are answered block by block in :mod:`deltaai.answering.table_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.answering.questions import CHECKED_ROWS, Question, TableChoices, resolve
from deltaai.answering.row_answerer import RowAnswerer
from deltaai.answering.row_pattern import RowPattern, observed_in
from deltaai.answering.rows_found import RowsFound
from deltaai.answering.table_answer import TableAnswer
from deltaai.budget import Budget
from deltaai.devices import CPU, Device
from deltaai.errors import EvidenceError
from deltaai.fitting import Sampler
from deltaai.io import rows_from_table
from deltaai.models import Evidence, FactorGraph, Likelihood, has_values
from deltaai.progress import Fraction, Reports, reporting
from deltaai.training import TrainingProgress
from deltaai.trust import Asked


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
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
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
        it is not, a list of mappings, or a tensor of states with -1 for unknown; of a model with
        real variables a floating one with NaN for unknown.
    of : the variables to report; all by default.
    method : ``"auto"`` is exact where the tables fit, ``"exact"``, or ``"sampler"``.
    num_samples : samples to draw for a row, where rows are sampled (1,000).
    samples : states to return for each row.
    check_rows : rows that get a second opinion at most, spread over the table, where rows are
        sampled; the others are ``"unchecked"``.
    check_samples : samples of a second opinion (4,000).
    do, likelihood : variables that are set from outside, and uncertain observations, in every row:
        as :func:`~deltaai.answering.asking.query` has them.
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
    budget = Budget.of(memory_limit, time_limit)
    with reporting(progress, watch, "answering") as reports:
        question = resolve(
            source,
            evidence,
            of,
            budget=budget,
            method=method,
            num_samples=num_samples,
            check_samples=check_samples,
            do=do,
            likelihood=likelihood,
            seed=seed,
            device=device,
            table=TableChoices(samples, check_rows, settings),
        )
        return answer_table(question, reports)


def answer_table(question: Question, reports: Reports) -> TableAnswer:
    """Answer all rows, and tell those who listen how far it is."""
    model, budget = question.model, question.budget
    rows = checked_rows(question.evidence, model)
    found = RowsFound.within(question, rows)
    answerer = RowAnswerer.of(
        question,
        RowPattern.of([rows], model.num_variables, budget),
        budget.with_memory(budget.memory - found.num_bytes),
        reports,
        alone=lambda: observed_in(rows),
    )
    answerer.fill(found, reports.fraction)
    return found.answer(answerer.method)


def checked_rows(evidence: object, model: FactorGraph) -> Num[Tensor, "row var"]:
    """Rows of evidence as states, -1 for unknown, from whatever holds them; or numbers and NaN."""
    if not isinstance(evidence, Tensor):
        return rows_from_table(evidence, model)
    kind = "integers" if model.is_discrete else "numbers"
    blank = "-1" if model.is_discrete else "NaN"
    expected = f"{kind} of shape (rows, {model.num_variables}), with {blank} for unknown"
    if not has_values(evidence) or evidence.ndim != 2 or evidence.shape[1] != model.num_variables:
        raise EvidenceError(f"rows have shape {tuple(evidence.shape)}: give {expected}")
    if not model.is_discrete:
        return _checked_numbers(evidence, model, expected)
    is_whole = not (evidence.is_floating_point() or evidence.is_complex())
    if is_whole and evidence.dtype != torch.bool:
        rows = evidence.long().to(CPU)  # first, for unsigned integers know no -1
        if not bool(((rows < -1) | (rows >= model.num_states.to(CPU))).any()):
            return rows
    raise EvidenceError(f"rows hold values that are no states: give {expected}")


def _checked_numbers(evidence: Tensor, model: FactorGraph, expected: str) -> Num[Tensor, "row var"]:
    """Rows of a model with real variables, NaN for unknown."""
    if not evidence.is_complex() and evidence.dtype != torch.bool:
        rows, (low, high) = evidence.detach().double().to(CPU), model.bounds
        is_inside = (rows >= low.to(CPU)) & (rows <= high.to(CPU)) & rows.isfinite()
        is_inside &= model.is_real.to(CPU) | (rows == rows.round())
        if bool((is_inside | rows.isnan()).all()):
            return rows
    raise EvidenceError(f"rows hold values that their variables cannot have: give {expected}")
