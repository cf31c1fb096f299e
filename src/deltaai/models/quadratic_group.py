"""Quadratic factors of one shape, evaluated together; and sums of such factors.

    log φ(x) = c + hᵀx - ½ xᵀPx,      log φ'(x) - log φ(x) = δ (h - Px)_i - ½ P_ii δ²

where x' differs from x by δ at i. Variables with states in the scope choose c, h and P.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factors import Factor
from deltaai.models.groups import Clamp, Columns, FactorGroup
from deltaai.models.quadratic_factors import MixtureFactor, QuadraticFactor
from deltaai.models.table_group import TableGroup, strides_of
from deltaai.models.variable import Variable
from deltaai.models.wrapped_group import WrappedGroup


@dataclass(frozen=True, eq=False)
class QuadraticGroup(FactorGroup):
    """Quadratic factors over as many real variables, with as many states beside.

    Parameters
    ----------
    place_sizes : number of states at each place of the scope, zero where it is real.
    precision, shift, constant : P, h and c of each factor and each joint state.
    """

    place_sizes: tuple[int, ...]
    precision: Float[Tensor, "factor *states real real"]
    shift: Float[Tensor, "factor *states real"]
    constant: Float[Tensor, "factor *states"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope, zero where it is real."""
        return self.place_sizes

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.precision.dtype

    @property
    def is_quadratic(self) -> bool:
        """They are."""
        return True

    @property
    def real_places(self) -> list[int]:
        """Places of the scope where there are real variables."""
        return [place for place, size in enumerate(self.sizes) if size == 0]

    @property
    def state_places(self) -> list[int]:
        """Places of the scope where there are variables with states."""
        return [place for place, size in enumerate(self.sizes) if size > 0]

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        real = values[self.real_places].to(self.dtype)
        entry = self._entry(factor, values)
        precision, shift, constant = (table[entry] for table in self._flat)
        slope = shift.T - 0.5 * torch.einsum("pij,jp->ip", precision, real)
        return constant + (real * slope).sum(0)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        if self.state_places:
            return super().log_values(columns)
        real = self._real(columns)
        slope = self.shift[:, :, None] - 0.5 * torch.bmm(self.precision, real)
        return self.constant[:, None] + (real * slope).sum(1)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        if self.state_places:
            return super().log_changes(columns, others, place)
        moved = self.scopes[:, place]
        step = others.index_select(0, moved).to(self.dtype) - columns.index_select(0, moved)
        row = self.precision[:, place : place + 1]
        slope = self.shift[:, place, None] - torch.bmm(row, self._real(columns)).squeeze(1)
        return step * (slope - 0.5 * self.precision[:, place, place, None] * step)

    def quadratic_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> tuple[Float[Tensor, "some batch"], Float[Tensor, "some batch"]]:
        """Precision and shift of the variable at ``place``, given the others."""
        real = values[self.real_places].to(self.dtype)
        at = self.real_places.index(place)
        entry = self._entry(factor[:, None], values) if self.state_places else factor[:, None]
        precision, shift, _ = self._flat
        own, row = precision[entry, at, at], precision[entry, at]
        across = torch.einsum("sbr,rsb->sb", row.expand(*real.shape[1:], -1), real)
        return own.expand_as(across), shift[entry, at] - across + own * real[at]

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        tables = zip(self.precision, self.shift, self.constant, strict=True)
        return [
            QuadraticFactor([variables[v].name for v in scope], *(t.detach() for t in parts))
            for scope, parts in zip(self.scopes.tolist(), tables, strict=True)
        ]

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain: what is fixed moves the shift and the constant."""
        remaining: list[FactorGroup] = []
        for fixed, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            scopes = clamp.renumbered[group.scopes[:, free]]
            sizes = tuple(self.sizes[place] for place in free)
            precision, shift, constant = group._at_states(fixed, clamp)
            held = [n for n, place in enumerate(self.real_places) if place in fixed]
            left = [n for n, place in enumerate(self.real_places) if place not in fixed]
            if held:
                places = [self.real_places[n] for n in held]
                value = clamp.values[group.scopes[:, places]].to(self.dtype)
                value = value.view(len(chosen), *[1] * (constant.ndim - 1), len(held))
                inner = precision[..., held, :][..., held]
                constant = constant + (value * shift[..., held]).sum(-1)
                constant = constant - 0.5 * torch.einsum(
                    "...i,...ij,...j->...", value, inner, value
                )
                across = precision[..., left, :][..., held]
                shift = shift[..., left] - (across * value[..., None, :]).sum(-1)
                precision = precision[..., left, :][..., left]
            if left:
                parts = precision, shift, constant
                remaining.append(QuadraticGroup(group.ids, scopes, sizes, *parts))
            else:
                remaining.append(TableGroup(group.ids, scopes, constant))
        return remaining

    def _at_states(self, fixed: tuple[int, ...], clamp: Clamp) -> tuple[Tensor, Tensor, Tensor]:
        """P, h and c with the states at fixed places chosen."""
        index: list[Tensor | slice] = [torch.arange(self.num_factors, device=self.scopes.device)]
        index += [
            clamp.values[self.scopes[:, place]].long() if place in fixed else slice(None)
            for place in self.state_places
        ]
        at = tuple(index)
        return self.precision[at], self.shift[at], self.constant[at]

    def _entry(
        self, factor: Int[Tensor, "*some"], values: Num[Tensor, "arity *shape"]
    ) -> Int[Tensor, "*shape"]:
        """Where the P, h and c of each factor at given states stand, all in one row."""
        sizes = self.precision.shape[1:-2]
        entry = factor * int(torch.Size(sizes).numel())
        for stride, place in zip(strides_of(sizes), self.state_places, strict=True):
            entry = entry + stride * values[place].long()
        return entry

    @property
    def _flat(self) -> tuple[Tensor, Tensor, Tensor]:
        size = self.precision.shape[-1]
        return (
            self.precision.reshape(-1, size, size),
            self.shift.reshape(-1, size),
            self.constant.reshape(-1),
        )

    def _real(self, columns: Columns) -> Float[Tensor, "factor real batch"]:
        values = columns.index_select(0, self.scopes.reshape(-1)).to(self.dtype)
        return values.view(*self.scopes.shape, columns.shape[1])


@dataclass(frozen=True, eq=False)
class MixtureGroup(WrappedGroup):
    """Sums of quadratic factors, equally many each.

    Parameters
    ----------
    base : all components, those of one factor in a row.
    num_components : of each factor.
    """

    num_components: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope, zero where it is real."""
        return self.base.sizes

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        parts = self._components_of(factor).reshape(-1)
        repeated = values.repeat_interleave(self.num_components, dim=1)
        each = self.base.log_values_at(parts, repeated)
        return each.view(len(factor), self.num_components).logsumexp(1)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        each = self.base.log_values(columns)
        return each.view(self.num_factors, self.num_components, -1).logsumexp(1)

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        parts = self.base.as_factors(variables)
        count = self.num_components
        runs = (parts[count * k : count * (k + 1)] for k in range(self.num_factors))
        return [MixtureFactor([p for p in run if isinstance(p, QuadraticFactor)]) for run in runs]

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""
        remaining: list[FactorGroup] = []
        for part in self.base.condition(clamp):
            first = slice(None, None, self.num_components)
            ids, scopes = part.ids[first], part.scopes[first]
            if isinstance(part, TableGroup):  # all real variables are fixed
                tables = part.tables.view(len(ids), self.num_components, *part.sizes)
                remaining.append(TableGroup(ids, scopes, tables.logsumexp(1)))
            else:
                remaining.append(MixtureGroup(ids, scopes, part, self.num_components))
        return remaining

    def select(self, index: Int[Tensor, "chosen"]) -> MixtureGroup:
        """Return the group of some of the factors."""
        base = self.base.select(self._components_of(index).reshape(-1))
        return replace(self, ids=self.ids[index], scopes=self.scopes[index], base=base)

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from super().content()
        yield "components", torch.tensor(self.num_components, dtype=torch.long, device="cpu")
        for name, value in self.base.content():
            yield f"base.{name}", value

    def _components_of(self, factor: Int[Tensor, "some"]) -> Int[Tensor, "some component"]:
        each = torch.arange(self.num_components, device=factor.device)
        return factor[:, None] * self.num_components + each
