"""What is known of each row of a table so far, while rows are being answered."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.answering.row_pattern import answer_bytes
from deltaai.answering.table_answer import IMPOSSIBLE, TableAnswer
from deltaai.budget import Budget
from deltaai.errors import ImpossibleEvidenceError
from deltaai.models import FactorGraph, zeros_propagated
from deltaai.trust import Answer, Drawn

_NOT_REACHED = "the time limit ended before this row was answered: raise it"


class RowsFound:
    """What is known of each row so far."""

    def __init__(
        self, model: FactorGraph, rows: Int[Tensor, "row var"], asked: list[str], samples: int
    ) -> None:
        self.model, self.rows, self.asked = model, rows, asked
        offsets, sizes = model.state_offsets.tolist(), model.num_states.tolist()
        numbers = [model.index(name) for name in asked]
        self.pairs = [offsets[v] + state for v in numbers for state in range(sizes[v])]
        shape = (len(rows), len(self.pairs))
        self.probabilities, self.errors = np.full(shape, np.nan), np.zeros(shape)
        self.log_partition = np.full(len(rows), np.nan)
        self.stderr, self.ess, self.khat, self.visible = np.full((4, len(rows)), np.nan)
        self.status = ["untrusted"] * len(rows)
        self.doubts: list[tuple[str, ...]] = [()] * len(rows)
        kept = (len(rows), samples, model.num_variables)
        self.samples = torch.zeros(kept, dtype=torch.long, device="cpu") if samples else None
        self.num_answered = len(rows)
        self.notes: tuple[str, ...] = ()

    @classmethod
    def within(
        cls,
        budget: Budget,
        model: FactorGraph,
        rows: Int[Tensor, "row var"],
        asked: list[str],
        samples: int,
    ) -> RowsFound:
        """Refuse before anything is allocated if the answers alone would not fit."""
        each = answer_bytes(model, num_pairs(model, asked), samples)
        remedy = "ask for fewer rows, variables or samples at a time"
        budget.refuse(f"answers to {len(rows)} rows", len(rows) * each, remedy)
        return cls(model, rows, asked, samples)

    @property
    def num_bytes(self) -> int:
        """Bytes that the rows and their answers take."""
        num_samples = 0 if self.samples is None else self.samples.shape[1]
        return len(self.rows) * answer_bytes(self.model, len(self.pairs), num_samples)

    def observed(self, row: int) -> dict[int, int]:
        """Observed variables of a row and their states."""
        return {v: state for v, state in enumerate(self.rows[row].tolist()) if state >= 0}

    def set_impossible(self, row: int) -> None:
        """No state agrees with the row's evidence."""
        self.status[row], self.log_partition[row] = IMPOSSIBLE, -np.inf
        self.stderr[row] = 0.0
        self.doubts[row] = ("the evidence has probability zero under the model",)

    def set_exact(self, row: int, answer: Answer) -> None:
        """Take down an answer that is certain."""
        asked = [answer.marginals[name] for name in self.asked]
        self.probabilities[row] = np.concatenate(asked) if asked else 0.0
        self.log_partition[row], self.stderr[row] = answer.log_partition, 0.0
        self.status[row] = "exact"

    def set_unsampled(self, row: int) -> None:
        """No sample of a row is possible; perhaps nothing is."""
        try:
            zeros_propagated(self.model, self.observed(row))
        except ImpossibleEvidenceError:
            self.set_impossible(row)
        else:
            self.doubt(row, ("no sample agrees with the evidence: draw more, or train longer",))

    def set(self, row: int, drawn: Drawn) -> None:
        """Take down what a row's samples say, and what they are worth."""
        mean, error = drawn.refined.moments
        self.probabilities[row] = mean[self.pairs].numpy()
        self.errors[row] = error[self.pairs].numpy()
        estimate, judged = drawn.samples.estimate, drawn.judged
        self.log_partition[row], self.stderr[row] = estimate.log_partition, estimate.stderr
        self.ess[row], self.khat[row] = estimate.ess, estimate.khat
        self.status[row], self.doubts[row] = judged.status, judged.doubts
        if judged.visible_share is not None:
            self.visible[row] = judged.visible_share

    def set_unreached(self, first: int) -> None:
        """The time was over before this row and those after it were answered."""
        self.num_answered = first
        for row in range(first, len(self.rows)):
            self.status[row], self.doubts[row] = "untrusted", (_NOT_REACHED,)

    def doubt(self, row: int, doubts: tuple[str, ...]) -> None:
        """Reasons not to trust a row."""
        if doubts and self.status[row] != IMPOSSIBLE:
            self.status[row] = "untrusted"
            self.doubts[row] = tuple(dict.fromkeys(self.doubts[row] + doubts))

    def answered(self) -> RowsFound:
        """Only the rows that were reached."""
        if self.num_answered == len(self.rows):
            return self
        kept = RowsFound(self.model, self.rows[: self.num_answered], self.asked, 0)
        kept.notes = self.notes
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | Tensor | list) and name not in {"asked", "pairs"}:
                setattr(kept, name, value[: self.num_answered])
        return kept

    def answer(self, method: str, start: float) -> TableAnswer:
        """All rows together."""
        return TableAnswer(
            model=self.model,
            names=tuple(self.asked),
            probabilities=self.probabilities,
            errors=self.errors,
            log_partition=self.log_partition,
            stderr=self.stderr,
            ess=self.ess,
            khat=self.khat,
            visible_share=self.visible,
            status=tuple(self.status),
            doubts=tuple("; ".join(some) for some in self.doubts),
            method=method,
            seconds=time.perf_counter() - start,
            samples=self.samples,
            notes=self.notes,
        )


def num_pairs(model: FactorGraph, asked: Sequence[str]) -> int:
    """Probabilities that are reported for some variables."""
    return sum(model.variables[model.index(name)].num_states for name in asked)
