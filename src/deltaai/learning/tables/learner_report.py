"""What there is to say of tables that were learned."""

from __future__ import annotations

import math
from collections.abc import Iterator

from deltaai.learning.report import LearningReport
from deltaai.learning.tables.drawn_counts import EstimatedLikelihood
from deltaai.learning.tables.expectation import TableStep, num_parameters
from deltaai.learning.tables.learner import TableLearner
from deltaai.trust import Verdict

_EXACT = EstimatedLikelihood(math.nan, 0.0, Verdict("exact"))


def table_report(learner: TableLearner, found: TableStep, structure: str) -> LearningReport:
    """Judge what was found by all rows, and say how it went."""
    rows = learner.columns.rows
    held_out = learner.at.held_out
    judged = learner.judged(found.model, rows, is_checked=held_out is None)
    verdict = (held_out or judged or _EXACT).verdict
    surprise = {
        variable.name: value
        for variable, value in zip(found.model.variables, found.surprise, strict=True)
    }
    return LearningReport(
        structure=structure,
        num_rows=len(rows),
        num_held_out=learner.num_held_out,
        missing_share=float((rows < 0).mean()) if rows.size else 0.0,
        num_parameters=num_parameters(found.model),
        log_likelihood=math.nan if judged is None else judged.mean,
        held_out_log_likelihood=None if held_out is None else held_out.mean,
        steps=found.step,
        has_converged=found.has_converged,
        surprise=dict(sorted(surprise.items(), key=lambda pair: -pair[1])),
        notes=(
            *learner.columns.notes,
            *_notes(learner, found),
            *_doubts(learner, judged, verdict),
        ),
        seconds=math.nan,  # whoever has the clock says so
        status=verdict.status,
    )


def _doubts(
    learner: TableLearner, judged: EstimatedLikelihood | None, verdict: Verdict
) -> Iterator[str]:
    """How counts were drawn, if they were, and what is to be doubted."""
    if not learner.is_estimated:
        return
    known = "" if judged is None else f", that of all rows to ± {judged.error:.2g}"
    how = "a sampler that follows the tables, for no exact way fits"
    yield f"missing cells are drawn by {how}; likelihoods are estimates{known}"
    yield from verdict.doubts


def _notes(learner: TableLearner, found: TableStep) -> Iterator[str]:
    """What one may not expect of how it was learned."""
    choices = learner.choices
    if choices.start_rows:
        yield f"learned on from an earlier model, which counts as {choices.start_rows:g} rows"
    elif learner.start is not None and not learner.needs_steps:
        yield (
            "every cell is known, so the tables are those of these rows alone: of the earlier ones "
            "something is left only if they count as rows (start_rows)"
        )
    elif learner.start is not None:
        yield "learned on from an earlier model, from where its tables stood"
    if found is learner.at.found:
        yield "the time was over before the rows held out were learned from"
