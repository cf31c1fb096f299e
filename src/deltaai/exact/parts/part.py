"""A part: a small model for many rows, which differ in where slices of the same tables begin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int

from deltaai.graphs import Elimination


@dataclass(frozen=True, eq=False)
class PartFactor:
    """A factor of a part.

    Parameters
    ----------
    scope : variables of the part it is over, as places in the part.
    strides : how far apart their states are in the vector of tables.
    offsets : where the slice of each row begins there.
    """

    scope: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: Int[np.ndarray, "row"]


@dataclass(frozen=True, eq=False)
class Part:
    """A small model for several rows.

    Parameters
    ----------
    sizes : numbers of states of its variables.
    elimination : in which order they are summed out.
    factors : what touches them; each is over one of them at least.
    weights : of the rows.
    """

    sizes: tuple[int, ...]
    elimination: Elimination
    factors: tuple[PartFactor, ...]
    weights: Float64[np.ndarray, "row"]

    @cached_property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """Entries and number of inputs of each variable's table."""
        rank = {v: place for place, v in enumerate(self.elimination.order)}
        inputs = [0] * len(self.sizes)
        for scope in (*(one.scope for one in self.factors), *self.elimination.fronts):
            if scope:
                inputs[min(scope, key=rank.__getitem__)] += 1
        fronts = self.elimination.fronts
        return tuple(
            (self.sizes[v] * math.prod(self.sizes[u] for u in fronts[v]), inputs[v])
            for v in range(len(self.sizes))
        )

    @cached_property
    def entries_of_row(self) -> int:
        """Entries of all tables that a row needs."""
        return sum(entries for entries, _ in self.tables)

    @cached_property
    def inputs_of_row(self) -> int:
        """Entries of all inputs of the table that has most of them."""
        return max((max(number, 1) * entries for entries, number in self.tables), default=1)

    def in_pieces(self, rows: int) -> Iterator[Part]:
        """The same for so many rows at a time."""
        if rows >= len(self.weights):
            yield self
            return
        for first in range(0, len(self.weights), rows):
            some = slice(first, first + rows)
            factors = tuple(
                PartFactor(one.scope, one.strides, one.offsets[some]) for one in self.factors
            )
            yield Part(self.sizes, self.elimination, factors, self.weights[some])
