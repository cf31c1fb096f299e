"""Rows to learn from: states of all variables, -1 where a cell is missing.

Rows are checked once, here; nothing downstream looks at them again. A row whose cells are all
missing says nothing and is allowed; a variable that no row observes is refused, because nothing
could be learned about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.errors import StateError, shown
from deltaai.models import FactorGraph

MISSING = -1


@dataclass(frozen=True, eq=False)
class LearningRows:
    """Checked rows.

    Parameters
    ----------
    states : one row each, -1 where a cell is missing.
    """

    states: Int[Tensor, "row var"]

    @classmethod
    def of(cls, model: FactorGraph, rows: Int[Tensor, "row var"]) -> LearningRows:
        """Check rows against a model, and put them where it is."""
        if not isinstance(rows, Tensor):
            raise StateError(
                f"rows are {shown(rows)}; they must be an integer tensor with one column a "
                "variable and -1 in missing cells: write for example torch.from_numpy(array)"
            )
        if rows.is_floating_point() and bool(rows.isnan().any()):
            row, column = rows.isnan().nonzero()[0].tolist()
            raise StateError(
                f"row {row + 1} (rows[{row}]) holds NaN in column {column}: rows are integers, and "
                "a missing cell is -1"
            )
        if rows.ndim == 2 and len(rows) == 0:
            raise StateError("there are no rows to learn from: give at least one")
        is_whole = not (rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool)
        if is_whole and rows.numel() and int(rows.min()) < MISSING:
            row, column = (rows < MISSING).nonzero()[0].tolist()
            raise StateError(
                f"row {row + 1} (rows[{row}]) holds {int(rows[row, column])} in column {column}: "
                "states are counted from 0, and a missing cell is -1"
            )
        model.check_states(rows.clamp(min=0) if is_whole else rows)
        states = rows.to(model.device, torch.long)
        is_observed = (states >= 0).any(0)
        if not bool(is_observed.all()):
            column = int((~is_observed).nonzero()[0])
            raise StateError(
                f"variable {model.variables[column].name!r} is missing in every row, so nothing "
                "can be learned about it: leave it out of the model, or give rows that observe it"
            )
        return cls(states)

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def is_complete(self) -> Bool[Tensor, "row"]:
        """Whether all cells of a row are there."""
        return (self.states >= 0).all(1)

    @cached_property
    def has_missing(self) -> bool:
        """Whether a cell is missing anywhere."""
        return not bool(self.is_complete.all())

    @cached_property
    def place_among_incomplete(self) -> Int[Tensor, "row"]:
        """Number of each incomplete row among those; meaningless for complete ones."""
        return (~self.is_complete).long().cumsum(0) - 1

    def split(
        self, held_out: float, generator: torch.Generator
    ) -> tuple[LearningRows, LearningRows | None]:
        """Rows to learn from and rows to judge by, at random; ``None`` for none of the latter."""
        num_held = round(held_out * len(self))
        if num_held == 0:
            return self, None
        if num_held == len(self):
            raise StateError(
                f"all {len(self)} rows would be held out: give more rows, or hold out fewer"
            )
        order = torch.randperm(len(self), generator=generator, dtype=torch.long, device="cpu").to(
            self.states.device
        )
        return (
            LearningRows(self.states[order[num_held:]]),
            LearningRows(self.states[order[:num_held]]),
        )
