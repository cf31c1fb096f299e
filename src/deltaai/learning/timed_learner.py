"""What every learner offers that is trained for a time and judged from outside.

It is trained in place. Its clock stands still while it is judged, and is saved with everything else
that the rest of the run depends on, so that a run that was killed and restored is the run that was
not. Whoever compares learners knows of this, and of what the kind of data adds: for images
:class:`deltaai.learning.ImageLearner`, for rows of real numbers :class:`RowLearner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class TimedLearner(Protocol):
    """A model that learns, and how to stop it and go on."""

    clock: Callable[[], float]  # what its seconds are read off: time.perf_counter, unless changed

    @property
    def num_updates(self) -> int:
        """Updates so far."""

    @property
    def seconds(self) -> float:
        """Time that updates took so far; evaluation does not count."""

    @property
    def num_parameters(self) -> Mapping[str, int]:
        """How many numbers were learned: those of ``"p"`` and of ``"q"``."""

    def run(self, *, seconds: float | int | None = None, updates: int | None = None) -> None:
        """Train on until the clock shows so many seconds, or so many updates were made, in all.

        With neither, until the budget of the settings is spent.
        """

    def save(self, path: Path) -> None:
        """Write all that the rest of the run depends on, in one piece."""

    def restore(self, path: Path) -> None:
        """Take up what :meth:`save` wrote for the same data and settings."""


@runtime_checkable
class RowLearner(TimedLearner, Protocol):
    """A model of rows of real numbers in a box that learns, and that others judge by its draws."""

    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number column"]:
        """Draw new rows, in [-1, 1]."""
