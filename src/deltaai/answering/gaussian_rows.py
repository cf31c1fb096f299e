"""Rows of evidence about a model with real variables, answered exactly.

Rows of a Gaussian model share factors (:class:`~deltaai.exact.GaussianRows`). Where every row
observes all that is real, each has tables of its own and is answered alone. Other models need a
sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed
import torch

from deltaai.answering.exact_rows import answer_rows_exactly, taken_down
from deltaai.answering.questions import Question
from deltaai.answering.row_pattern import RowPattern
from deltaai.answering.rows_found import RowsFound
from deltaai.budget import Budget
from deltaai.errors import NotAffordableError, TimeLimitError
from deltaai.exact import GaussianRows, gaussian_given
from deltaai.progress import Fraction

_GAUSSIAN, _ALONE = "a sparse factor", "elimination, row by row"
_REACH = float(scipy.special.ndtri(0.975))  # in deviations, that holds 95 %
Fill = Callable[[RowsFound, Fraction | None], None]


def real_rows(
    question: Question,
    pattern: RowPattern | None,
    budget: Budget,
    at_once: int,
    generator: torch.Generator,
    alone: Callable[[], list[dict[int, Any]]] | None,
) -> tuple[Fill, str]:
    """What answers all rows of a block, and what it is called; see ``RowAnswerer.of``."""
    model = question.model
    always = () if pattern is None else pattern.always_observed
    problem = gaussian_given(model, always)
    if problem is None:
        engine = GaussianRows(model, budget.memory)
        return partial(_filled, engine, budget, at_once, generator), _GAUSSIAN
    known = set(always)
    is_left = any(v.is_real and n not in known for n, v in enumerate(model.variables))
    if not is_left and alone is not None and not question.of_rows.samples:
        answers = answer_rows_exactly(model, alone(), budget=budget)
        if answers is not None:
            return partial(taken_down, iter(answers)), _ALONE
    raise NotAffordableError(
        f"there is no exact answer to these rows (not Gaussian, for {problem}): train a sampler "
        'with fit(model, evidence="any"), and ask it'
    )


def _filled(
    engine: GaussianRows,
    budget: Budget,
    at_once: int,
    generator: torch.Generator,
    found: RowsFound,
    progress: Fraction | None,
) -> None:
    num_rows = len(found.rows)
    found.stderr[:] = 0.0
    count = 0 if found.samples is None else found.samples.shape[1]
    for start in range(0, num_rows, at_once):
        part = slice(start, min(start + at_once, num_rows))
        try:
            with budget.watched("the table"):
                answers = engine.answer(found.rows[part], found.numbers, count, generator)
        except TimeLimitError:
            found.set_unreached(start)
            return
        found.log_partition[part] = answers.log_partition.numpy()
        found.probabilities[part] = _figures(
            found, found.rows[part].numpy(), answers.means.numpy(), answers.variances.numpy()
        )
        found.status[part] = ["exact"] * (part.stop - part.start)
        if found.samples is not None and answers.samples is not None:
            found.samples[part] = answers.samples
        for row in range(part.start, part.stop):
            if found.log_partition[row] == -np.inf:
                found.set_impossible(row)
        if progress is not None:
            progress(part.stop / num_rows)


def _figures(
    found: RowsFound, rows: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """The columns of a table of answers: states that are observed, figures of what is real."""
    columns: list[np.ndarray] = []
    for place, number in enumerate(found.numbers):
        mean, deviation = means[:, place], np.sqrt(variances[:, place])
        variable = found.model.variables[number]
        if variable.is_real:
            reach = _REACH * deviation
            columns += [mean, deviation, mean - reach, mean + reach]
        else:
            state = np.nan_to_num(rows[:, number], nan=0.0)
            columns += [
                np.where(np.isnan(mean), np.nan, state == value)
                for value in range(variable.num_states)
            ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 0))
