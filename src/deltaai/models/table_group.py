"""Factors given by log-tables: plain ones and the conditional tables of Bayesian networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factors import ConditionalTable, Factor, TableFactor
from deltaai.models.groups import Clamp, Columns, FactorGroup, states_of
from deltaai.models.variable import Variable


def strides_of(sizes: Sequence[int]) -> list[int]:
    """Step in a flat table for each variable of its scope, the last one fastest.

    >>> strides_of((2, 3, 4))
    [12, 4, 1]
    """
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return strides[::-1]


def entries_of(
    sizes: Sequence[int], scopes: Int[Tensor, "factor arity"], columns: Columns
) -> Int[Tensor, "factor batch"]:
    """Entry of each factor's flat table at full states."""
    index = torch.zeros(scopes.shape[0], columns.shape[1], dtype=torch.long, device=columns.device)
    for place, stride in enumerate(strides_of(sizes)):
        index.add_(states_of(columns.index_select(0, scopes[:, place])), alpha=stride)
    return index


def look_up(
    tables: Float[Tensor, "factor *states"],
    scopes: Int[Tensor, "factor arity"],
    columns: Columns,
) -> Float[Tensor, "factor batch"]:
    """Read each factor's table at full states, without a loop over factors."""
    index = entries_of(tables.shape[1:], scopes, columns)
    return tables.flatten(1).gather(1, index) if scopes.shape[1] else tables[:, None] + 0 * index


def slices_of(
    tables: Float[Tensor, "table *states"],
    number: Int[Tensor, "some"],
    values: Num[Tensor, "arity some batch"],
    place: int,
) -> Float[Tensor, "some state batch"]:
    """Read chosen tables at given values, with one place set to each of its states."""
    sizes = tables.shape[1:]
    strides = strides_of(sizes)
    index = (number * math.prod(sizes))[:, None]
    for other, stride in enumerate(strides):
        if other != place:
            index = torch.add(index, states_of(values[other]), alpha=stride)
    index = index.expand(values.shape[1:])
    states = torch.arange(sizes[place], device=values.device) * strides[place]
    entries = index[:, None, :] + states[:, None]
    return tables.flatten().index_select(0, entries.flatten()).view(entries.shape)


@dataclass(frozen=True, eq=False)
class TableGroup(FactorGroup):
    """Log-tables of one shape.

    Parameters
    ----------
    tables : the logarithm of each factor, one axis a variable; ``-inf`` for zero.
    """

    tables: Float[Tensor, "factor *states"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope."""
        return tuple(self.tables.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.tables.dtype

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        index = factor * self.table_size
        for place, stride in enumerate(strides_of(self.sizes)):
            index = index + values[place].long() * stride
        return self.tables.flatten().index_select(0, index)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        return look_up(self.tables, self.scopes, columns)

    def log_slices(self, columns: Columns, place: int) -> Float[Tensor, "factor state batch"]:
        """Evaluate every factor with the variable at ``place`` of its scope set to each value."""
        others = [other for other in range(self.arity) if other != place]
        by_state = self.tables.movedim(place + 1, 1)  # (factor, state, *others)
        num_states = by_state.shape[1]
        flat = by_state.reshape(-1, *by_state.shape[2:])
        scopes = self.scopes[:, others].repeat_interleave(num_states, 0)
        return look_up(flat, scopes, columns).reshape(self.num_factors, num_states, -1)

    def log_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> Float[Tensor, "some state batch"]:
        """Evaluate chosen factors with one place of their scope set to each value."""
        return slices_of(self.tables, factor, values, place)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        index = entries_of(self.sizes, self.scopes, columns)
        moved = self.scopes[:, place]
        step = others.index_select(0, moved).long() - states_of(columns.index_select(0, moved))
        flat = self.tables.flatten(1)
        after = flat.gather(1, index + strides_of(self.sizes)[place] * step)
        return after - flat.gather(1, index)

    def log_tables(self) -> Float[Tensor, "factor *states"]:
        """Return the tables themselves."""
        return self.tables

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        return [
            TableFactor([variables[v].name for v in scope], table)
            for scope, table in zip(self.scopes.tolist(), self.tables, strict=True)
        ]

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""
        remaining: list[FactorGroup] = []
        for fixed, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            index: list[Tensor | slice] = [torch.arange(len(chosen), device=chosen.device)]
            index += [
                states_of(clamp.values[group.scopes[:, place]]) if place in fixed else slice(None)
                for place in range(self.arity)
            ]
            # The first index is a tensor, so torch puts the factors' axis first in every case.
            tables, scopes = group.tables[tuple(index)], clamp.renumbered[group.scopes[:, free]]
            kind = type(self) if self._keeps_kind(fixed) else TableGroup
            remaining.append(kind(group.ids, scopes, tables))
        return remaining

    def _keeps_kind(self, fixed: tuple[int, ...]) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class ConditionalTableGroup(TableGroup):
    """Conditional tables p(child | parents) of one shape, the child's axis last."""

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        made: list[Factor] = []
        for scope, table in zip(self.scopes.tolist(), self.tables, strict=True):
            *parents, child = (variables[v].name for v in scope)
            made.append(ConditionalTable.from_log(child, parents, table))
        return made

    def _keeps_kind(self, fixed: tuple[int, ...]) -> bool:
        return self.arity - 1 not in fixed  # without its child it is no longer a distribution
