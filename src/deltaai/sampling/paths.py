"""States that are filled in along orders, given evidence: what objectives are evaluated at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals import Known, Observed
from deltaai.graphs import Dag
from deltaai.models import Columns


@dataclass(frozen=True, eq=False)
class Given:
    """What is given in each column before anything is drawn.

    Parameters
    ----------
    columns : values of the observed variables; what stands elsewhere does not matter.
    observed : which variables are observed.
    known : which inputs each conditional sees; ``None`` for all that it has.
    """

    columns: Columns
    observed: Observed
    known: Known = None


@dataclass(frozen=True, eq=False)
class Paths:
    """Full states, each filled in along an order, perhaps given evidence.

    Parameters
    ----------
    columns : the states; those of the first order, then those of the second, and so on.
    dags : the orders, with equally many states each.
    known : which inputs each variable may see; ``None`` if all that it has.
    observed : which variables are evidence in each column, and so neither drawn nor changed;
        ``None`` for none at all.
    context : what else is given with each column, such as an image, as the proposal's context
        network takes it; ``None`` for nothing.
    each_evidence : how many columns in a row share their evidence.
    """

    columns: Columns
    dags: tuple[Dag, ...]
    known: Known = None
    observed: Observed | None = None
    context: Float[Tensor, "batch *feature"] | None = None
    each_evidence: int = 1

    @property
    def each(self) -> int:
        """States of one order."""
        return self.columns.shape[1] // len(self.dags)

    def first(self, number: int) -> Paths:
        """The first so many states of each order."""
        if number >= self.each:
            return self
        starts = torch.arange(len(self.dags), device=self.columns.device) * self.each
        few = torch.arange(number, device=self.columns.device)
        index = (starts[:, None] + few).flatten()
        known, observed, context = self.known, self.observed, self.context
        return replace(
            self,
            columns=self.columns[:, index],
            known=None if known is None else known[:, index],
            observed=None if observed is None else observed[:, index],
            context=None if context is None else context[index],
        )

    def orders(self) -> Columns:
        """Variables of each state in the order in which they are set: observed ones come first."""
        by_dag = torch.from_numpy(np.array([dag.order for dag in self.dags], dtype=np.int64)).T
        orders = by_dag.to(self.columns.device).repeat_interleave(self.each, dim=1)
        if self.observed is None:
            return orders
        ranks = orders.argsort(0)
        return torch.where(self.observed, ranks, ranks + len(ranks)).argsort(0)

    def ranks(self) -> Columns:
        """Place of each variable in its state's order."""
        return self.orders().argsort(0)
