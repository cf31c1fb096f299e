"""A model of rows that knows nothing but each column by itself: what others must be better than.

Every column is normal with the mean and the deviation of the training rows; what would leave the
box is moved to its border, as it was in these rows. Rows are looked at some at a time, in an order
of their own, so there is a clock and a curve as of others; when all have been seen there is no more
to learn, and further updates change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from deltaai.arguments import checked_count, checked_path
from deltaai.errors import StateError
from deltaai.learning.image_learner import checked_end, progress_of
from deltaai.randomness import generator_of
from deltaai.training import read_state, write_state

_KIND = "independent rows"


class IndependentRows:
    """Independent normals, one a column.

    Parameters
    ----------
    rows : to learn from, in [-1, 1].
    updates : in which all rows have been seen once.
    seed : of their order.

    Examples
    --------
    >>> rows = torch.rand(200, 3, dtype=torch.float64) - 0.5
    >>> learner = IndependentRows(rows)
    >>> learner.run()
    >>> learner.num_updates, learner.sample(2, None).shape
    (10, torch.Size([2, 3]))
    """

    def __init__(
        self, rows: Float64[Tensor, "row column"], updates: int = 10, seed: int = 0
    ) -> None:
        if rows.ndim != 2 or len(rows) < 2 or not bool((rows.abs() <= 1).all()):
            raise StateError(
                f"the rows have shape {tuple(rows.shape)}: give at least two, with values from -1 "
                "to 1"
            )
        self.updates = checked_count("updates", updates, 1, len(rows))
        order = torch.randperm(
            len(rows), generator=generator_of(seed), dtype=torch.long, device="cpu"
        )
        self._parts = rows[order.to(rows.device)].tensor_split(self.updates)
        self.num_updates, self.seconds = 0, 0.0
        self.clock: Callable[[], float] = time.perf_counter
        self._sums = torch.zeros(3, rows.shape[1], dtype=torch.float64, device=rows.device)
        total = float(rows.sum())
        self._identity = {"number": len(rows), "total": total, "seed": seed}

    @property
    def num_parameters(self) -> Mapping[str, int]:
        """A mean and a deviation for each column; there is nothing to draw them with but p."""
        return {"p": 2 * self._sums.shape[1], "q": 0}

    def run(self, *, seconds: float | int | None = None, updates: int | None = None) -> None:
        """Look at more rows, until the clock or the updates say so, or all were seen."""
        end = checked_end(seconds, updates, (None, self.updates))
        started = self.clock() - self.seconds
        while progress_of(self, end) < 1:
            if self.num_updates < self.updates:
                part = self._parts[self.num_updates]
                self._sums += torch.stack(
                    (torch.ones_like(part).sum(0), part.sum(0), part.square().sum(0))
                )
            self.num_updates += 1
            self.seconds = self.clock() - started

    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number column"]:
        """Draw rows; without any update these are standard normals, moved into the box."""
        shape, device = (checked_count("number", number, 1), self._sums.shape[1]), self._sums.device
        where = device if generator is None else generator.device
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device=where)
        count, total, squares = self._sums
        if not self.num_updates:
            return drawn.to(device).clamp(-1, 1)
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        rows: Tensor = (mean + deviation * drawn.to(device)).clamp(-1, 1)
        return rows

    def save(self, path: str | Path) -> None:
        """Write all that the rest of the run depends on."""
        state = {
            "sums": self._sums.clone(),
            "num_updates": self.num_updates,
            "seconds": self.seconds,
        }
        write_state(checked_path(path), _KIND, self._identity, {"updates": self.updates}, state)

    def restore(self, path: str | Path) -> None:
        """Go on where a run of the same rows and settings was saved."""
        read_state(
            checked_path(path),
            _KIND,
            self._identity,
            {"updates": self.updates},
            free=(),
            others="other rows or another seed",
            restore=self._take_up,
        )

    def _take_up(self, state: Mapping[str, Any]) -> None:
        num_updates, seconds = int(state["num_updates"]), float(state["seconds"])
        if num_updates < 0 or not seconds >= 0 or state["sums"].shape != self._sums.shape:
            raise ValueError(f"{num_updates} updates after {seconds} seconds")
        self._sums = state["sums"].to(self._sums)
        self.num_updates, self.seconds = num_updates, seconds
