"""Where the learning of tables stands between two steps: a value, which is also the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deltaai.learning.tables.drawn_counts import EstimatedLikelihood
from deltaai.learning.tables.expectation import TableStep


@dataclass(frozen=True, eq=False)
class Stage:
    """Rows to learn from.

    Parameters
    ----------
    rows : the rows.
    num_climbs : how often to begin.
    goes_on : whether to begin where the stage before ended.
    """

    rows: np.ndarray
    num_climbs: int
    goes_on: bool = False


@dataclass
class Standing:
    """Where a run stands between two steps.

    Parameters
    ----------
    generator : of random tables to begin at.
    stage, climb : which is under way, counted from 0.
    here : the last step of the climb; none before the first.
    is_at_top : whether the climb is over.
    best : the best end of the earlier climbs of the stage.
    found : the best of the stage before.
    held_out : likelihood of the rows held out, once it is known.
    counting : what counts depend on besides the tables, where they are drawn.
    """

    generator: torch.Generator
    stage: int = 0
    climb: int = 0
    here: TableStep | None = None
    is_at_top: bool = False
    best: TableStep | None = None
    found: TableStep | None = None
    held_out: EstimatedLikelihood | None = None
    counting: Mapping[str, Any] | None = None

    @property
    def best_so_far(self) -> TableStep | None:
        """The best of the stage, the climb under way included."""
        if self.best is None or self.here is None:
            return self.here if self.best is None else self.best
        return self.here if self.here.objective > self.best.objective else self.best

    def end_climb(self) -> None:
        """Keep the better end, and go to the next climb."""
        self.best, self.here, self.is_at_top = self.best_so_far, None, False
        self.climb += 1

    def end_stage(self, held_out: EstimatedLikelihood | None, generator: torch.Generator) -> None:
        """Keep the best that was found, and go to the next stage."""
        self.found, self.held_out = self.best_so_far, held_out
        self.best, self.here, self.is_at_top = None, None, False
        self.stage, self.climb, self.generator = self.stage + 1, 0, generator
