"""Rows of data as they are counted: each different one once, with its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.models import FactorGraph, Variable

MISSING = -1
_ROWS_AT_ONCE = 2**15


@dataclass(frozen=True, eq=False)
class Cases:
    """Different rows, and how often each is there.

    Parameters
    ----------
    rows : states, -1 where a cell is missing; each row once.
    weights : how many rows are like it.
    """

    rows: np.ndarray
    weights: Float64[Tensor, "row"]

    @classmethod
    def of(cls, rows: np.ndarray, variables: Sequence[Variable]) -> Cases:
        """Join rows that are alike; a variable with one state is known everywhere."""
        single = [v for v, variable in enumerate(variables) if variable.num_states == 1]
        if single:
            rows = rows.copy()
            rows[:, single] = 0
        if rows.shape[1] == 0:
            return cls(
                rows[:1],
                torch.full(
                    (min(len(rows), 1),), float(len(rows)), dtype=torch.float64, device="cpu"
                ),
            )
        found, counts = np.unique(rows, axis=0, return_counts=True)
        return cls(found, torch.from_numpy(counts.astype(np.float64)))

    @property
    def num_rows(self) -> float:
        """Number of rows, each as often as it is there."""
        return float(self.weights.sum())

    def blocks(self) -> Iterator[tuple[Tensor, Float64[Tensor, "row"]]]:
        """Rows and weights, some at a time."""
        for first in range(0, len(self.rows), _ROWS_AT_ONCE):
            place = slice(first, first + _ROWS_AT_ONCE)
            yield torch.from_numpy(self.rows[place].astype(np.int64)), self.weights[place]

    def known_counts(self, model: FactorGraph) -> list[Float64[Tensor, "..."]]:
        """For each factor, how often each joint state of its scope is seen, all of it known."""
        weights, found = self.weights.numpy(), []
        for group in model.groups:
            tables = np.zeros((group.num_factors, *group.sizes))
            for table, scope in zip(tables, group.scopes.tolist(), strict=True):
                states = self.rows[:, scope].astype(np.int64)
                is_known = (states >= 0).all(1)
                np.add.at(table, tuple(states[is_known].T), weights[is_known])
            found.append(torch.from_numpy(tables))
        return found


@dataclass(frozen=True, eq=False)
class Counted:
    """What cases say of a model.

    Parameters
    ----------
    log_likelihood : summed over all rows; -inf if one is impossible.
    by_group : for each factor of each group, expected counts of the joint states of its scope.
    """

    log_likelihood: float
    by_group: tuple[Float64[Tensor, "..."], ...]
