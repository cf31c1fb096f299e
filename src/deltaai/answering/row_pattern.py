"""What is to be known of rows of evidence before they are answered: which variables they observe.

It is collected block by block, so the rows themselves need not be held. How many rows to hold at a
time follows from what one of them takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Num
from torch import Tensor

from deltaai.answering.questions import Question
from deltaai.budget import Budget

# A block of rows may take this share of the memory, and this much in any case.
_BLOCK_SHARE, _MOST_BLOCK_BYTES, _MOST_BLOCK_ROWS = 8, 2**25, 2**14
_REAL_NUMBERS = 4  # of a real variable while a row is being answered
# Bytes of a cell as text, in lists and in a line to be read; of a probability, in arrays, in lists
# and in a line to be written; and of a row of answers beside its numbers.
_BYTES_PER_CELL, _BYTES_PER_PAIR, _BYTES_PER_ROW = 160, 200, 400


@dataclass(frozen=True, eq=False)
class RowPattern:
    """Which variables rows observe.

    Parameters
    ----------
    num_rows : how many rows there are.
    always, ever : whether a variable is observed in all of them, and in any.
    most_observed : variables that one row observes at most.
    """

    num_rows: int
    always: Bool[Tensor, "var"]
    ever: Bool[Tensor, "var"]
    most_observed: int

    @classmethod
    def of(
        cls, blocks: Iterable[Num[Tensor, "row var"]], num_variables: int, budget: Budget
    ) -> RowPattern:
        """Look at all rows once."""
        num_rows = most_observed = 0
        always = torch.ones(num_variables, dtype=torch.bool, device="cpu")
        ever = torch.zeros(num_variables, dtype=torch.bool, device="cpu")
        for rows in blocks:
            budget.check("the table of evidence")
            if len(rows):
                is_known = known_in(rows)
                num_rows += len(rows)
                always &= is_known.all(0)
                ever |= is_known.any(0)
                most_observed = max(most_observed, int(is_known.sum(1).max()))
        return cls(num_rows, always, ever, most_observed)

    @property
    def always_observed(self) -> list[int]:
        """Variables that every row observes; none if there are no rows."""
        return self.always.nonzero().flatten().tolist() if self.num_rows else []

    @property
    def is_same(self) -> bool:
        """Whether all rows observe the same variables."""
        return bool((self.always == self.ever).all())


def known_in(rows: Num[Tensor, "row var"]) -> Bool[Tensor, "row var"]:
    """Where something is known: not -1, or not NaN where rows are floating.

    >>> known_in(torch.tensor([[-1.0, torch.nan]])), known_in(torch.tensor([[-1]]))
    (tensor([[ True, False]]), tensor([[False]]))
    """
    return ~rows.isnan() if rows.is_floating_point() else rows >= 0


def observed_in(rows: Num[Tensor, "row var"]) -> list[dict[int, Any]]:
    """Observed variables of each row and their states or values.

    >>> observed_in(torch.tensor([[-1, 2], [-1, -1]]))
    [{1: 2}, {}]
    """
    known = known_in(rows).tolist()
    return [
        {v: state for v, state in enumerate(row) if is_known[v]}
        for row, is_known in zip(rows.tolist(), known, strict=True)
    ]


def answer_bytes(question: Question) -> int:
    """Bytes of a row and its answer in arrays: states, probabilities with errors, samples."""
    states = question.model.num_variables * (1 + question.of_rows.samples)
    return 8 * (states + 2 * question.num_pairs) + _BYTES_PER_ROW


def rows_at_once(question: Question, budget: Budget) -> tuple[int, int]:
    """How many rows to read, answer and write at a time, and the bytes that this takes."""
    model = question.model
    each = _BYTES_PER_ROW + _BYTES_PER_PAIR * question.num_pairs
    pairs = sum(variable.num_states or _REAL_NUMBERS for variable in model.variables)
    each += 16 * pairs  # of all variables, whatever is asked for
    each += _BYTES_PER_CELL * model.num_variables * (1 + question.of_rows.samples)
    most = min(budget.memory // _BLOCK_SHARE, _MOST_BLOCK_BYTES)
    count = min(max(most // each, 1), _MOST_BLOCK_ROWS)
    return count, count * each
