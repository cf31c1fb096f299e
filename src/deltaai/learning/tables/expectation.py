"""Tables of a Bayesian network from rows with missing cells, by expectation maximisation.

With N_v(s, k) the expected number of rows in which the parents of v are in state s and v in state
k, given what each row shows, and A_v(s, k) pseudo-rows (a Dirichlet prior),

    p(v = k | parents = s)  <-  (N_v(s, k) + A_v(s, k)) / Σ_j (N_v(s, j) + A_v(s, j))

raises  Σ_rows log p(row) + Σ_v Σ_s,k A_v(s, k) log p(k | s)  in every step, and ends after one
where all cells are known. All rows are counted at once (:meth:`RowInference.expected_counts`).
Rows that are alike are one row with a weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError, ModelError, NotAffordableError
from deltaai.exact import RowInference
from deltaai.graphs import Elimination
from deltaai.learning.tables.cases import Cases, Counted
from deltaai.learning.tables.islands import Islands
from deltaai.learning.tables.prior import Prior
from deltaai.models import ConditionalTable, ConditionalTableGroup, FactorGraph, Variable

_MOST_ENTRIES = 2**24  # of one table
_WORTH_A_LOOK = 1.0  # seconds; where all rows take less, nothing else is tried


@dataclass(frozen=True, eq=False)
class TableStep:
    """Where learning stands after a step.

    Parameters
    ----------
    model : the network.
    step : number of steps.
    log_likelihood : mean over the rows, of the network before the step.
    objective : the same with the prior, which no step may lower.
    surprise : of each variable, its part of the negative log-likelihood as expected.
    has_converged : whether the step gained next to nothing.
    """

    model: FactorGraph
    step: int
    log_likelihood: float
    objective: float
    surprise: tuple[float, ...]
    has_converged: bool = False


def empty_network(variables: Sequence[Variable], parents: Sequence[Sequence[int]]) -> FactorGraph:
    """A network whose tables are uniform."""
    tables = []
    for child, known in enumerate(parents):
        shape = [variables[v].num_states for v in (*known, child)]
        if math.prod(shape) > _MOST_ENTRIES:
            raise ModelError(
                f"the table of {variables[child].name!r} given {len(known)} parents would have "
                f"{math.prod(shape)} entries: give it fewer parents"
            )
        table = torch.full(shape, -math.log(shape[-1]), dtype=torch.float64, device="cpu")
        names = [variables[v].name for v in known]
        tables.append(ConditionalTable.from_log(variables[child].name, names, table))
    return FactorGraph(variables, tables)


def shaken(model: FactorGraph, share: float, generator: torch.Generator) -> FactorGraph:
    """Mix some of a random table into each, so that variables that are never seen differ."""
    groups = []
    for group in _tables(model):
        random = torch.rand(
            group.tables.shape, dtype=torch.float64, device="cpu", generator=generator
        )
        random = random / random.sum(-1, keepdim=True)
        mixed = (1 - share) * group.tables.exp() + share * random
        groups.append(replace(group, tables=mixed.log()))
    return FactorGraph.from_groups(model.variables, groups)


def num_parameters(model: FactorGraph) -> int:
    """Free numbers in the tables."""
    return sum(
        group.num_factors * (group.table_size - group.table_size // group.sizes[-1])
        for group in model.groups
    )


class CaseCounter:
    """Expected counts of rows, for networks of one structure.

    Parameters
    ----------
    cases : the rows.
    budget : memory and time that may be used.
    """

    def __init__(self, cases: Cases, budget: Budget) -> None:
        self.cases, self.budget = cases, budget
        is_known = (cases.rows >= 0).all(0) if len(cases.rows) else np.zeros(cases.rows.shape[1])
        self._always = [int(v) for v in np.flatnonzero(is_known)]
        self._elimination: Elimination | None = None
        self._islands: Islands | None = None

    def counted(self, model: FactorGraph) -> Counted:
        """Log-likelihood of the cases, and expected counts for each group of the model."""
        try:
            if self._elimination is None and self._islands is None:
                self._choose(model)
            return self._counted(model)
        except MemoryLimitError as error:
            raise NotAffordableError(
                f"missing cells cannot be filled in exactly with this structure: {error}"
            ) from None

    def _counted(self, model: FactorGraph) -> Counted:
        if self._islands is not None:
            return self._islands.counted(model)
        engine = RowInference(
            model,
            self._always,
            memory_limit=self.budget.memory,
            elimination=self._elimination,
        )
        counts = [
            torch.zeros(g.num_factors, *g.sizes, dtype=torch.float64, device="cpu")
            for g in model.groups
        ]
        total = 0.0
        for rows, weights in self.cases.blocks():
            self.budget.check("a step of learning")
            counted = engine.expected_counts(rows, weights)
            total += float((counted.log_partition * weights).sum())
            for sums, more in zip(counts, counted.by_group, strict=True):
                sums.add_(more)
        return Counted(total, tuple(counts))

    def _choose(self, model: FactorGraph) -> None:
        """All rows in one tree of cliques, or island by island: what takes less time."""
        limit = self.budget.memory
        seconds, reason = math.inf, None
        try:
            engine = RowInference(model, self._always, memory_limit=limit)
            self._elimination = engine.elimination
            seconds = engine.seconds_a_row * len(self.cases.rows)
        except MemoryLimitError as error:
            reason = error
        if seconds > _WORTH_A_LOOK:
            islands = Islands(model, self.cases, self.budget)
            if islands.seconds(limit) < seconds:
                self._islands, reason = islands, None
        if reason is not None:
            raise reason

    def log_likelihood(self, model: FactorGraph) -> float:
        """Mean log-likelihood of the rows."""
        return self.counted(model).log_likelihood / self.cases.num_rows


def steps_of(
    counter: CaseCounter, model: FactorGraph, prior: Prior, step: int = 0
) -> Iterator[TableStep]:
    """Expectation and maximisation in turn, for ever; what comes first is after one more step."""
    while True:
        found = counter.counted(model)
        num_rows, likelihood = counter.cases.num_rows, found.log_likelihood
        objective = likelihood + prior.log_density(model)
        step += 1
        after = maximised(model, found.by_group, prior)
        surprise = _surprise(after, found.by_group)
        yield TableStep(
            after,
            step,
            likelihood / num_rows,
            objective / num_rows,
            tuple(one / num_rows for one in surprise),
        )
        model = after


def maximised(
    model: FactorGraph, counts: Sequence[Float64[Tensor, "..."]], prior: Prior
) -> FactorGraph:
    """The network whose tables fit counts best; uniform where nothing was counted."""
    groups = []
    for group, found, pseudo in zip(_tables(model), counts, prior.counts(model), strict=True):
        total = found + pseudo
        sums = total.sum(-1, keepdim=True)
        uniform = torch.full_like(total, 1 / group.sizes[-1])
        tables = torch.where(sums > 0, total / torch.where(sums > 0, sums, 1.0), uniform)
        groups.append(replace(group, tables=tables.log()))
    return FactorGraph.from_groups(model.variables, groups)


def _tables(model: FactorGraph) -> Iterator[ConditionalTableGroup]:
    for group in model.groups:
        assert isinstance(group, ConditionalTableGroup)
        yield group


def _surprise(model: FactorGraph, counts: Sequence[Tensor]) -> list[float]:
    """Cross-entropy of each variable's table, summed over the rows."""
    found = [0.0] * model.num_variables
    for group, table in zip(model.groups, counts, strict=True):
        terms = torch.where(table > 0, -table * group.log_tables(), 0.0).flatten(1).sum(1)
        for scope, value in zip(group.scopes.tolist(), terms.tolist(), strict=True):
            found[scope[-1]] += value
    return found


def from_known(model: FactorGraph, cases: Cases, prior: Prior) -> FactorGraph:
    """Tables by counting rows in which a variable and all its parents are known: a start."""
    return maximised(model, cases.known_counts(model), prior)
