"""Tables of a Bayesian network from rows with missing cells, by expectation maximisation.

With N_v(s, k) the expected number of rows in which the parents of v are in state s and v in state
k, given what each row shows, and a Dirichlet prior of α pseudo-rows spread evenly over each table,

    p(v = k | parents = s)  <-  (N_v(s, k) + α / |table|) / Σ_j (N_v(s, j) + α / |table|)

raises  Σ_rows log p(row) + Σ_v Σ_s,k α / |table| log p(k | s)  in every step, and ends after one
where all cells are known. All rows are counted at once (:meth:`RowInference.expected_counts`).
Rows that are alike are one row with a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import ModelError, NotAffordableError
from deltaai.exact import RowInference
from deltaai.graphs import Elimination
from deltaai.models import ConditionalTable, ConditionalTableGroup, FactorGraph, Variable

_ROWS_AT_ONCE = 2**15
_MOST_ENTRIES = 2**24  # of one table


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
    def of(cls, rows: np.ndarray) -> Cases:
        """Join rows that are alike."""
        if rows.shape[1] == 0:
            return cls(rows[:1], torch.full((min(len(rows), 1),), float(len(rows))).double())
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


@dataclass(frozen=True, eq=False)
class Standing:
    """Where learning stands after a step.

    Parameters
    ----------
    model : the network.
    step : number of steps.
    log_likelihood : mean over the rows, of the network before the step.
    objective : the same with the prior, which no step may lower.
    surprise : of each variable, its part of the negative log-likelihood as expected.
    """

    model: FactorGraph
    step: int
    log_likelihood: float
    objective: float
    surprise: tuple[float, ...]


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
        random = torch.rand(group.tables.shape, dtype=torch.float64, generator=generator)
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


class Expectation:
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

    def counted(
        self, model: FactorGraph, progress: Callable[[float], None] | None = None
    ) -> tuple[Float64[Tensor, "row"], list[Float64[Tensor, "..."]]]:
        """Log-likelihood of each case, and counts for each group of the model."""
        try:
            engine = RowInference(
                model,
                self._always,
                memory_limit=self.budget.memory,
                elimination=self._elimination,
            )
        except NotAffordableError as error:
            raise NotAffordableError(
                f"missing cells cannot be filled in exactly with this structure: {error}"
            ) from None
        self._elimination = engine.elimination
        found = [torch.zeros(g.num_factors, *g.sizes).double() for g in model.groups]
        logs, done = [], 0
        for rows, weights in self.cases.blocks():
            self.budget.check("a step of learning")
            counted = engine.expected_counts(rows, weights)
            logs.append(counted.log_partition)
            for total, more in zip(found, counted.by_group, strict=True):
                total.add_(more)
            done += len(rows)
            if progress is not None:
                progress(done / len(self.cases.rows))
        return torch.cat([torch.zeros(0).double(), *logs]), found

    def log_likelihood(self, model: FactorGraph) -> float:
        """Mean log-likelihood of the rows."""
        logs, _ = self.counted(model)
        return float((logs * self.cases.weights).sum() / self.cases.num_rows)


def steps_of(
    expectation: Expectation,
    model: FactorGraph,
    prior: float,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Standing]:
    """Expectation and maximisation in turn, for ever; what comes first is after one step."""
    step = 0
    while True:
        logs, counts = expectation.counted(model, progress)
        num_rows = max(expectation.cases.num_rows, 1.0)
        likelihood = float((logs * expectation.cases.weights).sum())
        objective = likelihood + _log_prior(model, prior)
        step += 1
        after = maximised(model, counts, prior)
        surprise = _surprise(after, counts)
        yield Standing(
            after,
            step,
            likelihood / num_rows,
            objective / num_rows,
            tuple(one / num_rows for one in surprise),
        )
        model = after


def maximised(
    model: FactorGraph, counts: Sequence[Float64[Tensor, "..."]], prior: float
) -> FactorGraph:
    """The network whose tables fit counts best; uniform where nothing was counted."""
    groups = []
    for group, found in zip(_tables(model), counts, strict=True):
        total = found + prior / group.table_size
        sums = total.sum(-1, keepdim=True)
        uniform = torch.full_like(total, 1 / group.sizes[-1])
        tables = torch.where(sums > 0, total / torch.where(sums > 0, sums, 1.0), uniform)
        groups.append(replace(group, tables=tables.log()))
    return FactorGraph.from_groups(model.variables, groups)


def _tables(model: FactorGraph) -> Iterator[ConditionalTableGroup]:
    for group in model.groups:
        assert isinstance(group, ConditionalTableGroup)
        yield group


def _log_prior(model: FactorGraph, prior: float) -> float:
    if prior == 0:
        return 0.0
    return math.fsum(
        prior / group.table_size * float(group.log_tables().sum()) for group in model.groups
    )


def _surprise(model: FactorGraph, counts: Sequence[Tensor]) -> list[float]:
    """Cross-entropy of each variable's table, summed over the rows."""
    found = [0.0] * model.num_variables
    for group, table in zip(model.groups, counts, strict=True):
        terms = torch.where(table > 0, -table * group.log_tables(), 0.0).flatten(1).sum(1)
        for scope, value in zip(group.scopes.tolist(), terms.tolist(), strict=True):
            found[scope[-1]] += value
    return found


def from_known(model: FactorGraph, cases: Cases, prior: float) -> FactorGraph:
    """Tables by counting rows in which a variable and all its parents are known: a start."""
    weights = cases.weights.numpy()
    counts = []
    for group in model.groups:
        found = np.zeros((group.num_factors, *group.sizes))
        for table, scope in zip(found, group.scopes.tolist(), strict=True):
            states = cases.rows[:, scope].astype(np.int64)
            is_known = (states >= 0).all(1)
            np.add.at(table, tuple(states[is_known].T), weights[is_known])
        counts.append(torch.from_numpy(found))
    return maximised(model, counts, prior)
