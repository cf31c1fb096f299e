"""What was learned, and how well: the model with its report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from deltaai.display import Card, Shown
from deltaai.models import FactorGraph


@dataclass(frozen=True, repr=False)
class LearningReport(Shown):
    """How a model was learned.

    Parameters
    ----------
    structure : where its edges come from.
    num_rows, num_held_out : rows that were learned from in the end, and those of them that judged.
    missing_share : share of the cells that were missing.
    num_parameters : free numbers of the model.
    log_likelihood : mean of a row, of all rows under the model; NaN where that is not affordable.
    held_out_log_likelihood : the same of rows that the tables had not seen when they were judged;
        none if no row was held out.
    steps : of expectation maximisation, on all rows; or updates along the gradient.
    has_converged : whether the last step gained less than the tolerance.
    surprise : for each variable, its part of the negative log-likelihood of a row, largest first.
    notes : what was done that one may not expect, one sentence each.
    seconds : of learning and judging.
    status : of the held-out likelihood: exact, or how far an estimate can be trusted.
    """

    structure: str
    num_rows: int
    num_held_out: int
    missing_share: float
    num_parameters: int
    log_likelihood: float
    held_out_log_likelihood: float | None
    steps: int
    has_converged: bool
    surprise: dict[str, float]
    notes: tuple[str, ...]
    seconds: float
    status: str = "exact"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values, as people read them."""
        held_out = "none were held out"
        if self.num_held_out and self.held_out_log_likelihood is None:
            held_out = "not known: the time was over"
        elif self.held_out_log_likelihood is not None:
            how = "" if self.status == "exact" else f", {self.status}"
            held_out = f"{self.held_out_log_likelihood:.4f} ({self.num_held_out} rows{how})"
            if self.held_out_log_likelihood == -math.inf:
                held_out += ": some are impossible; a prior above 0 makes none so"
        listed = ", ".join(f"{n} {v:.3f}" for n, v in list(self.surprise.items())[:5])
        end = "" if self.has_converged else ", still gaining: more steps or time would help"
        found = [
            ("structure", self.structure),
            ("rows", f"{self.num_rows}, {self.missing_share:.1%} of their cells missing"),
            ("parameters", str(self.num_parameters)),
            ("log-likelihood of a row", _number(self.log_likelihood)),
            ("of rows held out", held_out),
            ("steps", f"{self.steps}{end}"),
            ("most surprising, nats a row", listed or "not known"),
            ("seconds", f"{self.seconds:.1f}"),
        ]
        return found + [("note", note) for note in self.notes]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dict(self.__dict__)

    def _card(self) -> Card:
        return Card("LearningReport", tuple(self.rows))


def _number(value: float) -> str:
    return "not affordable" if math.isnan(value) else f"{value:.4f}"


class LearnedModel(FactorGraph):
    """A model that was learned: like any other, with the report of how."""

    report: LearningReport

    @classmethod
    def of(cls, model: FactorGraph, report: LearningReport) -> LearnedModel:
        """Put a report to a model."""
        made = cls.from_groups(model.variables, model.groups)
        assert isinstance(made, LearnedModel)
        made.report = report
        return made
