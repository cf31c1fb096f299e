"""Pseudo-rows: what tables are taken to be before any row is seen, as if rows had said it.

A Dirichlet prior is a number of rows for every entry of a table. Spread evenly they keep what was
never seen possible; spread as an earlier network expects them they are what is left of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.models import FactorGraph


@dataclass(frozen=True, eq=False)
class Prior:
    """Pseudo-rows that are counted with the rows.

    Parameters
    ----------
    even : number of those that are spread evenly over each table.
    expected : others, as an earlier network expects them: counts for each group, or none.
    """

    even: float = 0.0
    expected: tuple[Float64[Tensor, "..."], ...] = ()

    def counts(self, model: FactorGraph) -> Iterator[Float64[Tensor, "..."]]:
        """How often each entry of each table of a group is counted, or one number for all."""
        for place, group in enumerate(model.groups):
            spread = torch.tensor(self.even / group.table_size, dtype=torch.float64, device="cpu")
            yield self.expected[place] + spread if self.expected else spread

    def log_density(self, model: FactorGraph) -> float:
        """Of the tables, up to a constant."""
        found = []
        for group, counts in zip(model.groups, self.counts(model), strict=True):
            tables = group.log_tables()
            found.append(float(torch.where(counts > 0, counts * tables, 0.0).sum()))
        return math.fsum(found)
