"""Pairwise couplings and fields on spins s = 2x - 1 in {-1, +1}, as in Ising models.

A coupling takes the value ``strength`` where its two spins agree and ``-strength`` where they
differ, so a sample's score needs one exclusive-or per coupling and one product with the strengths.
Where most pairs of variables are coupled, products with the matrix of couplings W are faster: with
local fields f = W s the score is ½ s·f, and f_u s_u is all that depends on s_u.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factors import Factor, SpinCoupling, SpinField
from deltaai.models.groups import Clamp, Columns, FactorGroup, states_of
from deltaai.models.table_group import TableGroup
from deltaai.models.variable import Variable

_LEAST_DENSE, _DENSE_SHARE = 16, 8  # variables, and one pair of so many that is coupled


@dataclass(frozen=True, eq=False)
class SpinGroup(FactorGroup):
    """log φ_k = strength_k times the product of the spins in its scope.

    With two variables in the scope it is a coupling, with one a field.
    """

    strengths: Float[Tensor, "factor"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope: two."""
        return (2,) * self.arity

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.strengths.dtype

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        return self.strengths[factor] * self._sign((values.long().sum(0) + self.arity) % 2)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        return self.strengths[:, None] * self._sign(self._is_negative(columns))

    def log_score(self, columns: Columns) -> Float[Tensor, "batch"]:
        """Sum of all factors' log-values at full states."""
        if self._is_dense(columns):
            spins = self._spins(columns)
            return 0.5 * (spins * (self._couplings(len(columns)) @ spins)).sum(0)
        return self.strengths.sum() - 2 * (
            self.strengths @ self._is_negative(columns).to(self.dtype)
        )

    def log_slices(self, columns: Columns, place: int) -> Float[Tensor, "factor state batch"]:
        """Evaluate every factor with the variable at ``place`` of its scope set to each value."""
        if self.arity == 1:
            one = self.strengths[:, None].expand(-1, columns.shape[1])
        else:
            other = columns.index_select(0, self.scopes[:, 1 - place])
            one = self.strengths[:, None] * self._sign(1 - other)
        return torch.stack((-one, one), dim=1)

    def local_slices(
        self, columns: Columns
    ) -> Iterator[tuple[Int[Tensor, "member"], Float[Tensor, "member state batch"]]]:
        """Variables, and parts of their log scores at each of their values, to be summed."""
        if not self._is_dense(columns):
            yield from super().local_slices(columns)
            return
        members = torch.unique(self.scopes)
        fields = self._couplings(len(columns))[members] @ self._spins(columns)
        yield members, torch.stack((-fields, fields), dim=1)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        moved = self.scopes[:, place]
        is_moved = columns.index_select(0, moved) != others.index_select(0, moved)
        return -2 * self.log_values(columns) * is_moved

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        names = [[variables[v].name for v in scope] for scope in self.scopes.tolist()]
        strengths = self.strengths.tolist()
        if self.arity == 1:
            return [SpinField(name, h) for (name,), h in zip(names, strengths, strict=True)]
        return [SpinCoupling(a, b, w) for (a, b), w in zip(names, strengths, strict=True)]

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain: couplings to a fixed spin become fields."""
        remaining: list[FactorGroup] = []
        for fixed, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            spins = (2 * clamp.values[group.scopes[:, fixed]] - 1).prod(1)
            strengths = group.strengths * spins.to(self.dtype)
            scopes = clamp.renumbered[group.scopes[:, free]]
            if free:
                remaining.append(SpinGroup(group.ids, scopes, strengths))
            else:
                remaining.append(TableGroup(group.ids, scopes, strengths))
        return remaining

    def _is_dense(self, columns: Columns) -> bool:
        """Whether a product with all pairs costs less than looking couplings up."""
        count = len(columns)
        return (
            self.arity == 2 and count >= _LEAST_DENSE and _DENSE_SHARE * len(self.scopes) > count**2
        )

    def _couplings(self, num_variables: int) -> Float[Tensor, "var var"]:
        """The symmetric matrix of couplings; pairs that are coupled twice are summed."""
        shape = (num_variables, num_variables)
        empty = torch.zeros(shape, dtype=self.dtype, device=self.strengths.device)
        one_way = empty.index_put(tuple(self.scopes.T), self.strengths, accumulate=True)
        return one_way + one_way.T

    def _spins(self, columns: Columns) -> Float[Tensor, "var batch"]:
        """The spins of all variables; those with more states stand there, too, and meet zeros."""
        return 2 * columns.to(self.dtype) - 1

    def _is_negative(self, columns: Columns) -> Int[Tensor, "factor batch"]:
        """1 where the product of the spins is -1, else 0."""
        first = states_of(columns.index_select(0, self.scopes[:, 0]))
        if self.arity == 1:
            return 1 - first
        return first.bitwise_xor_(states_of(columns.index_select(0, self.scopes[:, 1])))

    def _sign(self, is_negative: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return 1 - 2 * is_negative.to(self.dtype)
