"""What is known of each row of a table so far, while rows are being answered."""

from __future__ import annotations

import time
from copy import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.answering.columns import errors_of, figures_of
from deltaai.answering.questions import Question
from deltaai.answering.row_pattern import answer_bytes, observed_in
from deltaai.answering.table_answer import IMPOSSIBLE, TableAnswer
from deltaai.errors import ImpossibleEvidenceError
from deltaai.models import zeros_propagated
from deltaai.trust import Answer, Drawn

_NOT_REACHED = "the time limit ended before this row was answered: raise it"


class RowsFound:
    """What is known of each row so far."""

    def __init__(self, question: Question, rows: Num[Tensor, "row var"]) -> None:
        model, samples = question.model, question.of_rows.samples
        self.question, self.model, self.rows = question, model, rows
        self.asked = question.names
        self.numbers = [model.index(name) for name in self.asked]
        self.pairs: list[int] = []  # of probabilities in one row of all; none if any are real
        if model.is_discrete:
            offsets, sizes = model.state_offsets.tolist(), model.num_states.tolist()
            self.pairs = [offsets[v] + state for v in self.numbers for state in range(sizes[v])]
        shape = (len(rows), question.num_pairs)
        self.probabilities, self.errors = np.full(shape, np.nan), np.zeros(shape)
        self.log_partition = np.full(len(rows), np.nan)
        self.stderr, self.ess, self.khat, self.visible = np.full((4, len(rows)), np.nan)
        self.status = ["untrusted"] * len(rows)
        self.doubts: list[tuple[str, ...]] = [()] * len(rows)
        kept = (len(rows), samples, model.num_variables)
        dtype = torch.long if model.is_discrete else torch.float64
        self.samples = torch.zeros(kept, dtype=dtype, device="cpu") if samples else None
        self.num_answered = len(rows)

    @classmethod
    def within(cls, question: Question, rows: Num[Tensor, "row var"]) -> RowsFound:
        """Refuse before anything is allocated if the answers alone would not fit."""
        needed = len(rows) * answer_bytes(question)
        remedy = "ask for fewer rows, variables or samples at a time"
        question.budget.refuse(f"answers to {len(rows)} rows", needed, remedy)
        return cls(question, rows)

    @property
    def num_bytes(self) -> int:
        """Bytes that the rows and their answers take."""
        return len(self.rows) * answer_bytes(self.question)

    def observed(self, row: int) -> dict[int, Any]:
        """Observed variables of a row and their states or values."""
        return observed_in(self.rows[row : row + 1])[0]

    def set_impossible(self, row: int) -> None:
        """No state agrees with the row's evidence."""
        self.status[row], self.log_partition[row] = IMPOSSIBLE, -np.inf
        self.stderr[row] = 0.0
        self.doubts[row] = ("the evidence has probability zero under the model",)

    def set_exact(self, row: int, answer: Answer) -> None:
        """Take down an answer that is certain."""
        asked = [figures_of(answer.marginals[name]) for name in self.asked]
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
        if self.model.is_discrete:
            mean, error = drawn.refined.moments
            self.probabilities[row] = mean[self.pairs].numpy()
            self.errors[row] = error[self.pairs].numpy()
        elif self.asked:
            values, errors = drawn.refined.marginals(), drawn.refined.marginal_errors()
            self.probabilities[row] = np.concatenate([figures_of(values[n]) for n in self.asked])
            self.errors[row] = np.concatenate(
                [errors[n] if n in errors else errors_of(values[n]) for n in self.asked]
            )
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
        kept = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | Tensor | list) and name not in {
                "asked",
                "numbers",
                "pairs",
            }:
                setattr(kept, name, value[: self.num_answered])
        return kept

    def answer(self, method: str) -> TableAnswer:
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
            seconds=time.perf_counter() - self.question.started,
            samples=self.samples,
            notes=self.question.notes,
        )
