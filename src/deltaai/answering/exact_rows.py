"""Rows of evidence whose tables do not fit together, answered exactly one after the other.

:class:`~deltaai.exact.RowInference` holds tables for many rows at once and for all that may be
observed. A row alone may still have an exact plan: after its own evidence, without what zeros rule
out, or in parts. So a table of a few rows is answered exactly wherever each of them would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deltaai.answering.exact_answers import answer_exactly
from deltaai.answering.planning import SEARCH_SECONDS, plan_given
from deltaai.answering.rows_found import RowsFound
from deltaai.budget import Budget
from deltaai.errors import ImpossibleEvidenceError
from deltaai.models import FactorGraph
from deltaai.progress import Fraction
from deltaai.trust import Answer

# Seconds that all rows may take if there is no limit; a sampler answers long tables sooner.
_MOST_SECONDS = 600.0


def answer_rows_exactly(
    model: FactorGraph,
    rows: Sequence[Mapping[int, int | float]],
    *,
    budget: Budget,
    progress: Fraction | None = None,
) -> list[Answer | None] | None:
    """Answer each row by its own plan.

    Returns
    -------
    An answer for each row, ``None`` for one that is impossible; or nothing at all if a plan is not
    exact, or if all together would take too long.
    """
    left = min(budget.seconds_left, _MOST_SECONDS)
    answers: list[Answer | None] = []
    for number, row in enumerate(rows):
        try:
            planned = plan_given(budget, model, row)
            seconds = planned.predicted_seconds
            if planned.cutset is not None:
                seconds += SEARCH_SECONDS
            left -= seconds
            rows_left = len(rows) - number - 1  # a row tells how long the others will take
            if not planned.is_exact or (rows_left and seconds * rows_left > left):
                return None
            watching = budget.watching("the table")
            answers.append(answer_exactly(planned, watching))
        except ImpossibleEvidenceError:
            answers.append(None)
        if progress is not None:
            progress((number + 1) / len(rows))
    return answers


def taken_down(
    answers: Iterator[Answer | None], found: RowsFound, progress: Fraction | None
) -> None:
    """Take down answers that are there already."""
    for row in range(len(found.rows)):
        answer = next(answers)
        if answer is None:
            found.set_impossible(row)
        else:
            found.set_exact(row, answer)
    if progress is not None:
        progress(1.0)
