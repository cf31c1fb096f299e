"""Expected counts where most cells are known: the missing ones fall apart into small islands.

Given the known cells of a row, missing variables that no path of missing variables joins are
independent. So a row is a set of *islands*, connected sets of missing variables, and

    log p(row) = Σ log φ over factors that are known + Σ_islands log Σ_{x_island} Π φ that touch it

Islands of the same variables, in whatever rows, are one job; rows that agree on all that touches
the island are one row with a weight. Which islands there are is found once, and holds for all
steps. Small ones are summed over their joint states, all rows at once; large ones by elimination on
what touches them. A network too wide for tables may so be learned from rows with few missing cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.budget import Budget
from deltaai.exact import RowInference, exact_cost
from deltaai.graphs import Elimination, eliminate, min_fill_order
from deltaai.learning.missing_islands import island_labels
from deltaai.learning.tables.cases import MISSING, Cases, Counted
from deltaai.models import FactorGraph

_MOST_TERMS = 2**17  # joint states times rows, of a small island
# A model of the time, in seconds: of a factor of a small island and of a term of it, of a large
# island and of an entry of its tables.
_FACTOR, _TERM = 1e-4, 4e-9
_LARGE, _ENTRY = 1e-2, 5e-9


@dataclass(frozen=True, eq=False)
class TouchingFactor:
    """A factor that touches an island.

    Parameters
    ----------
    group, number : which it is.
    axes : its axes, those of known variables first, then those of members in their order.
    known : where the known ones stand among what is around the island.
    shape : one entry a member: its number of states if it is in the scope, else one.
    """

    group: int
    number: int
    axes: tuple[int, ...]
    known: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Island:
    """Variables that are missing together, in some rows.

    Parameters
    ----------
    members : the variables.
    sizes : their numbers of states.
    around : known variables in factors that touch them.
    factors : what touches them.
    rows : states of what is around, each once.
    weights : how many rows are like it.
    """

    members: tuple[int, ...]
    sizes: tuple[int, ...]
    around: tuple[int, ...]
    factors: tuple[TouchingFactor, ...]
    rows: Int[Tensor, "row around"]
    weights: Float64[Tensor, "row"]

    @property
    def num_terms(self) -> int:
        """Joint states of the members, times rows."""
        return math.prod(self.sizes) * len(self.rows)

    @property
    def is_small(self) -> bool:
        """Whether its joint states are summed over, one by one."""
        return self.num_terms <= _MOST_TERMS


class Islands:
    """Expected counts of cases by their islands.

    Parameters
    ----------
    model : a network of the structure; its tables do not matter.
    cases : the rows.
    budget : memory and time that may be used.
    """

    def __init__(self, model: FactorGraph, cases: Cases, budget: Budget) -> None:
        self.model, self.cases, self.budget = model, cases, budget
        self._graph = model.markov_graph()
        self._sizes: list[int] = model.num_states.tolist()
        self._scopes = [group.scopes.tolist() for group in model.groups]
        self._touched: list[list[tuple[int, int]]] = [[] for _ in self._sizes]
        for group, scopes in enumerate(self._scopes):
            for number, scope in enumerate(scopes):
                for variable in scope:
                    self._touched[variable].append((group, number))
        self.islands = list(self._found())
        self._known = cases.known_counts(model)

    def seconds(self, memory: int) -> float:
        """About how long all counts take; for ever if a large island does not fit."""
        total = 0.0
        for island in self.islands:
            if island.is_small:
                total += len(island.factors) * (_FACTOR + _TERM * island.num_terms)
                continue
            cost = exact_cost(self._elimination(island), island.sizes)
            if cost.peak_bytes > memory:
                return math.inf
            total += _LARGE + _ENTRY * cost.total_entries * len(island.rows)
        return total

    def _elimination(self, island: Island) -> Elimination:
        graph = self._graph.induced(island.members)
        return eliminate(graph, min_fill_order(graph))

    def counted(self, model: FactorGraph) -> Counted:
        """Log-likelihood of all cases, and expected counts for each group of the model."""
        counts = [known.clone() for known in self._known]
        tables = [group.log_tables().double() for group in model.groups]
        total = math.fsum(
            float(torch.where(known > 0, known * table, 0.0).sum())
            for known, table in zip(self._known, tables, strict=True)
        )
        logs = []
        for island in self.islands:
            self.budget.check("a step of learning")
            if island.is_small:
                logs.append(_summed(island, tables, counts))
            else:
                logs.append(self._eliminated(model, island, counts))
        return Counted(total + math.fsum(logs), tuple(counts))

    # -- once ----------------------------------------------------------------------------------

    def _found(self) -> Iterator[Island]:
        """Connected sets of missing variables, and the rows that have each."""
        rows, weights = self.cases.rows, self.cases.weights.numpy()
        labels = island_labels(rows < 0, self._graph)
        row, variable = np.nonzero(rows < 0)
        cell = row * rows.shape[1] + labels[row, variable]
        drawn = np.random.default_rng(0).integers(1, 2**62, size=(rows.shape[1],))
        mark = drawn.astype(np.uint64)
        marks = np.zeros(rows.size, dtype=np.uint64)
        np.add.at(marks, cell, mark[variable])  # sums of random numbers tell sets apart
        cells = np.flatnonzero(marks)
        cells = cells[np.argsort(marks[cells], kind="stable")]
        ends = (np.flatnonzero(np.diff(marks[cells])) + 1).tolist()
        for first, last in zip([0, *ends], [*ends, len(cells)], strict=True):
            if first == last:
                continue
            where = cells[first:last] // rows.shape[1]
            root = int(cells[first] % rows.shape[1])
            members = tuple(np.flatnonzero(labels[where[0]] == root).tolist())
            yield self._island(members, rows[where], weights[where])

    def _island(self, members: tuple[int, ...], rows: np.ndarray, weights: np.ndarray) -> Island:
        touched = sorted({one for v in members for one in self._touched[v]})
        inside = set(members)
        scopes = [self._scopes[group][number] for group, number in touched]
        around = tuple(sorted({v for scope in scopes for v in scope} - inside))
        found, places = np.unique(rows[:, around], axis=0, return_inverse=True)
        totals = np.bincount(places.ravel(), weights=weights, minlength=len(found))
        beside = {v: number for number, v in enumerate(around)}
        factors = []
        for (group, number), scope in zip(touched, scopes, strict=True):
            known = [v for v in scope if v in beside]
            order = known + [v for v in members if v in scope]
            factors.append(
                TouchingFactor(
                    group,
                    number,
                    tuple(scope.index(v) for v in order),
                    tuple(beside[v] for v in known),
                    tuple(self._sizes[v] if v in scope else 1 for v in members),
                )
            )
        return Island(
            members,
            tuple(self._sizes[v] for v in members),
            around,
            tuple(factors),
            torch.from_numpy(found.astype(np.int64)),
            torch.from_numpy(totals),
        )

    # -- large islands -------------------------------------------------------------------------

    def _eliminated(
        self, model: FactorGraph, island: Island, counts: Sequence[Float64[Tensor, "..."]]
    ) -> float:
        """Count a large island by elimination on what touches it."""
        kept = (*island.members, *island.around)
        number = torch.full((model.num_variables,), -1, dtype=torch.long, device="cpu")
        number[list(kept)] = torch.arange(len(kept), device="cpu")
        groups, chosen = [], []
        for place, (group, total) in enumerate(zip(model.groups, counts, strict=True)):
            touching = [one.number for one in island.factors if one.group == place]
            if touching:
                index = torch.tensor(touching, dtype=torch.long, device="cpu")
                groups.append(replace(group.select(index), scopes=number[group.scopes[index]]))
                chosen.append((total, index))
        part = FactorGraph.from_groups([model.variables[v] for v in kept], groups)
        observed = range(len(island.members), len(kept))
        engine = RowInference(
            part,
            observed,
            memory_limit=self.budget.memory,
            elimination=self._elimination(island),
        )
        unknown = torch.full(
            (len(island.rows), len(island.members)), MISSING, dtype=torch.long, device="cpu"
        )
        found = engine.expected_counts(torch.cat((unknown, island.rows), 1), island.weights)
        for (total, index), more in zip(chosen, found.by_group, strict=True):
            total.index_add_(0, index, more)
        return float((found.log_partition * island.weights).sum())


def _summed(
    island: Island,
    tables: Sequence[Float64[Tensor, "..."]],
    counts: Sequence[Float64[Tensor, "..."]],
) -> float:
    """Count a small island over all its joint states; its part of the log-likelihood."""
    columns, num_rows = island.rows.T, len(island.rows)
    scores = torch.zeros(num_rows, *island.sizes, dtype=torch.float64, device="cpu")
    for one in island.factors:
        table = tables[one.group][one.number].permute(one.axes)
        at = tuple(columns[place] for place in one.known)
        scores += table[at].view(-1, *one.shape) if at else table.reshape(1, *one.shape)
    flat = scores.view(num_rows, -1)
    total = flat.logsumexp(1)
    is_possible = total > -math.inf
    flat.sub_(total.where(is_possible, 0.0)[:, None]).exp_()
    flat.mul_((island.weights * is_possible)[:, None])
    for one in island.factors:
        unwanted = [axis + 1 for axis, size in enumerate(one.shape) if size == 1]
        summed = scores.sum(unwanted) if unwanted else scores
        table = counts[one.group][one.number].permute(one.axes)
        at = tuple(columns[place] for place in one.known)
        if at:
            table.index_put_(at, summed, accumulate=True)
        else:
            table += summed.sum(0)
    return float((total * island.weights).sum())
