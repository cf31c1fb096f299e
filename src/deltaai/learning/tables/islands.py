"""Expected counts where most cells are known: the missing ones fall apart into small islands.

Given the known cells of a row, missing variables that no path of missing variables joins are
independent. So a row is a set of *islands*, connected sets of missing variables, and

    log p(row) = Σ log φ over factors that are known + Σ_islands log Σ_{x_island} Π φ that touch it

An island is a part (:mod:`deltaai.exact.parts`) for all rows that have it: the known cells of a row
say where the slice of each factor begins. Rows that look up the same slices are one row with a
weight. Which islands there are is found once, and holds for all steps. A network too wide for
tables may so be learned from rows with few missing cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from jaxtyping import Int

from deltaai.budget import Budget
from deltaai.exact import Part, PartFactor, PartSums, bytes_of
from deltaai.graphs import eliminate, min_fill_order, min_weight_order
from deltaai.learning.missing_islands import island_labels
from deltaai.learning.tables.cases import Cases, Counted
from deltaai.models import FactorGraph


class Islands:
    """Expected counts of cases by their islands.

    Parameters
    ----------
    model : a network of the structure; its tables do not matter.
    cases : the rows.
    budget : memory and time that may be used.
    """

    def __init__(self, model: FactorGraph, cases: Cases, budget: Budget) -> None:
        self.budget = budget
        self._graph = model.markov_graph()
        self._sizes: list[int] = model.num_states.tolist()
        self._scopes: list[list[int]] = []
        self._strides: list[list[int]] = []
        self._starts: list[int] = []  # of each factor in the vector of all tables
        lengths = [group.num_factors * group.table_size for group in model.groups]
        self._ends = list(accumulate(lengths, initial=0))
        for group, start in zip(model.groups, self._ends[:-1], strict=True):
            strides = [math.prod(group.sizes[axis + 1 :]) for axis in range(len(group.sizes))]
            for number, scope in enumerate(group.scopes.tolist()):
                self._scopes.append(scope)
                self._strides.append(strides)
                self._starts.append(start + number * group.table_size)
        self._touched: list[list[int]] = [[] for _ in self._sizes]
        for factor, scope in enumerate(self._scopes):
            for variable in scope:
                self._touched[variable].append(factor)
        self.parts = list(self._found(cases))
        self._known = cases.known_counts(model)

    def seconds(self, memory: int) -> float:
        """About how long all counts take; for ever if they do not fit."""
        if bytes_of(self.parts) > memory:
            return math.inf
        return self._sums.seconds

    def counted(self, model: FactorGraph) -> Counted:
        """Log-likelihood of all cases, and expected counts for each group of the model."""
        self.budget.check("a step of learning")
        tables = [group.log_tables().double() for group in model.groups]
        total = math.fsum(
            float(torch.where(known > 0, known * table, 0.0).sum())
            for known, table in zip(self._known, tables, strict=True)
        )
        found = self._sums.counted(torch.cat([table.flatten() for table in tables]))
        counts = tuple(
            known + found.counts[first:end].view(known.shape)
            for known, (first, end) in zip(self._known, pairwise(self._ends), strict=True)
        )
        return Counted(total + found.log_partition, counts)

    # -- once ----------------------------------------------------------------------------------

    @cached_property
    def _sums(self) -> PartSums:
        return PartSums(self.parts, self._ends[-1])

    def _found(self, cases: Cases) -> Iterator[Part]:
        """Connected sets of missing variables, for the rows that have each."""
        is_some = (cases.rows < 0).any(1)
        rows, weights = cases.rows[is_some], cases.weights.numpy()[is_some]
        slices = self._slices(rows)
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
        for first, last in pairwise([0, *ends, len(cells)] if len(cells) else []):
            where = cells[first:last] // rows.shape[1]
            root = int(cells[first] % rows.shape[1])
            members = np.flatnonzero(labels[where[0]] == root).tolist()
            yield self._part(members, slices, where, weights[where])

    def _slices(self, rows: np.ndarray) -> Int[np.ndarray, "row factor"]:
        """Where the slice of each factor that a row leaves begins in the vector of tables."""
        # What is missing begins at its first state. Rows may be of a type too small for products.
        states = np.maximum(rows, 0).astype(np.int64)
        found = np.empty((len(rows), len(self._scopes)), dtype=np.int64)
        for factor, (scope, strides) in enumerate(zip(self._scopes, self._strides, strict=True)):
            found[:, factor] = self._starts[factor]
            for variable, stride in zip(scope, strides, strict=True):
                found[:, factor] += stride * states[:, variable]
        return found

    def _part(
        self, members: list[int], slices: np.ndarray, where: np.ndarray, weights: np.ndarray
    ) -> Part:
        """An island and what touches it; rows that have the same slices are one."""
        sizes = tuple(self._sizes[v] for v in members)
        graph = self._graph.induced(members)
        is_even = len(set(sizes)) == 1
        order = min_fill_order(graph) if is_even else min_weight_order(graph, sizes)
        touched = sorted({factor for v in members for factor in self._touched[v]})
        begins = slices[where[:, None], touched]
        if len(where) > 1:
            begins, same = np.unique(begins, axis=0, return_inverse=True)
            weights = np.bincount(same.ravel(), weights=weights, minlength=len(begins))
        place = {v: number for number, v in enumerate(members)}
        factors = []
        for offsets, factor in zip(begins.T, touched, strict=True):
            along = zip(self._scopes[factor], self._strides[factor], strict=True)
            inside = [(place[v], stride) for v, stride in along if v in place]
            scope, strides = zip(*inside, strict=True)
            factors.append(PartFactor(scope, strides, offsets))
        return Part(sizes, eliminate(graph, order), tuple(factors), weights)
