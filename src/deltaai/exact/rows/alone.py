"""A row of evidence on its own, in log space: for rows that the fast way cannot be trusted with.

Slow, and right however small the probabilities are. The order is that of all rows, less what the
row observes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError
from deltaai.exact.inference import ExactInference
from deltaai.exact.remainder import Remainder
from deltaai.graphs import eliminate
from deltaai.models import FactorGraph


class RowAlone:
    """Exact inference given one row.

    Parameters
    ----------
    model : the target.
    row : a state for each variable, -1 where it is unknown.
    order : variables in the order in which to eliminate them.
    memory_limit : bytes the tables may take.
    """

    def __init__(
        self,
        model: FactorGraph,
        row: Int[Tensor, "var"],
        order: Sequence[int],
        memory_limit: int,
    ) -> None:
        self.model = model
        known = {v: k for v, k in enumerate(row.tolist()) if k >= 0}
        self.engine: ExactInference | None = None
        try:
            left = Remainder.given(model, known)
            place = {v: number for number, v in enumerate(left.free)}
            kept = [place[v] for v in order if v in place]
            elimination = eliminate(left.reduced.markov_graph(), kept)
            self.engine = ExactInference(left, memory_limit=memory_limit, elimination=elimination)
            self.log_partition = self.engine.log_partition()
        except ImpossibleEvidenceError:
            self.engine, self.log_partition = None, -math.inf
        self._known = known

    def marginals(self) -> Float64[Tensor, "pair"] | None:
        """Probabilities of all (variable, state) pairs; none if the row is impossible."""
        if self.engine is None:
            return None
        return torch.cat([torch.from_numpy(one) for one in self.engine.marginals().values()])

    def add_counts(self, weight: float, by_group: Sequence[Tensor]) -> None:
        """Add the probabilities of the joint states of every factor's scope, times a weight."""
        if self.engine is None:
            return
        found = [
            (frozenset(names), names, torch.from_numpy(table / table.sum()))
            for names, table in self.engine.clique_marginals()
        ]
        for group, counts in zip(self.model.groups, by_group, strict=True):
            for number, scope in enumerate(group.scopes.tolist()):
                free = [
                    self.model.variables[v].name
                    for v in scope
                    if v not in self._known and self.model.variables[v].num_states > 1
                ]
                at = tuple(self._known.get(v, slice(None)) for v in scope)
                target = counts[number][at].squeeze()
                if not free:
                    target += weight
                    continue
                names, table = next((n, t) for inside, n, t in found if inside.issuperset(free))
                axes = [axis for axis, name in enumerate(names) if name not in free]
                left = [name for name in names if name in free]
                table = table.sum(axes) if axes else table
                target += weight * table.permute([left.index(name) for name in free])
