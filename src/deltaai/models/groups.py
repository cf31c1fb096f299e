"""Factors in groups of one shape: the form in which they are evaluated.

A group holds all factors of one kind whose scopes have the same numbers of states, so that one
tensor operation serves all of them. States are handed to groups as *columns*, one row a variable
and one column a sample, because gathering the rows of a scope is then a plain memory copy.

Every group answers the same questions, all in log space:

- ``log_values``: every factor at full states;
- ``log_values_at``: chosen factors at given values of their scope;
- ``log_slices``: every factor at full states, with one place of its scope set to each value, and
  ``log_slices_at``: chosen ones at given values;
- ``log_tables``: every factor as a table.

A new kind of factor is one subclass that defines :meth:`FactorGroup.log_values_at`; the other
answers follow from it and may be overridden where a faster way exists. This file does not decide
which factors go together: see :mod:`deltaai.models.assembly`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from deltaai.errors import ModelError
from deltaai.models.factors import Factor
from deltaai.models.variable import Variable

# States are whole numbers. Where any variable of a model is real, all stand in one floating tensor.
Columns = Num[Tensor, "var batch"]
Group = TypeVar("Group", bound="FactorGroup")


@dataclass(frozen=True, eq=False)
class FactorGroup(ABC):
    """Factors of one kind and shape.

    Parameters
    ----------
    ids : place of each factor in the model's list of factors.
    scopes : variables of each factor.
    """

    ids: Int[Tensor, "factor"]
    scopes: Int[Tensor, "factor arity"]

    @property
    def num_factors(self) -> int:
        """Number of factors in the group."""
        return self.scopes.shape[0]

    @property
    def arity(self) -> int:
        """Number of variables in each scope."""
        return self.scopes.shape[1]

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope, zero where there is a real variable."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Type of the values."""

    @property
    def has_tables(self) -> bool:
        """Whether its factors can be written as tables: all their variables have states."""
        return 0 not in self.sizes

    @property
    def is_quadratic(self) -> bool:
        """Whether its factors are quadratic in every real variable."""
        return False

    @property
    def table_size(self) -> int:
        """Number of entries of one factor written as a table."""
        self.refuse_real()
        return math.prod(self.sizes)

    def refuse_real(self, place: int | None = None) -> None:
        """Refuse what only states have, at a place of the scope or at any."""
        if 0 in (self.sizes if place is None else (self.sizes[place],)):
            raise ModelError(
                "a factor over real variables has no table and no list of values: this is for "
                "models whose variables have states"
            )

    @abstractmethod
    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        batch = columns.shape[1]
        factor = torch.arange(self.num_factors, device=columns.device).repeat_interleave(batch)
        values = self.scope_values(columns).reshape(self.arity, self.num_factors * batch)
        return self.log_values_at(factor, values).reshape(self.num_factors, batch)

    def log_score(self, columns: Columns) -> Float[Tensor, "batch"]:
        """Sum of all factors' log-values at full states."""
        return self.log_values(columns).sum(0)

    def log_slices(self, columns: Columns, place: int) -> Float[Tensor, "factor state batch"]:
        """Evaluate every factor with the variable at ``place`` of its scope set to each value."""
        every = torch.arange(self.num_factors, device=columns.device)
        return self.log_slices_at(every, self.scope_values(columns), place)

    def local_slices(
        self, columns: Columns
    ) -> Iterator[tuple[Int[Tensor, "member"], Float[Tensor, "member state batch"]]]:
        """Variables, and parts of their log scores at each of their values, to be summed."""
        for place in range(self.arity):
            yield self.scopes[:, place], self.log_slices(columns, place)

    def log_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> Float[Tensor, "some state batch"]:
        """Evaluate chosen factors with one place of their scope set to each value.

        What stands at that place in ``values`` is not looked at.
        """
        self.refuse_real(place)
        arity, count, batch = values.shape
        num_states = self.sizes[place]
        spread = values[:, :, None, :].repeat(1, 1, num_states, 1)
        states = torch.arange(num_states, device=values.device, dtype=values.dtype)
        spread[place] = states[None, :, None]
        factor = factor.repeat_interleave(num_states * batch)
        return self.log_values_at(factor, spread.view(arity, -1)).view(count, num_states, batch)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        batch = columns.shape[1]
        factor = torch.arange(self.num_factors, device=columns.device).repeat_interleave(batch)
        values = self.scope_values(columns)
        before = self.log_values_at(factor, values.flatten(1))
        values[place] = others.index_select(0, self.scopes[:, place])
        after = self.log_values_at(factor, values.flatten(1))
        return (after - before).reshape(self.num_factors, batch)

    def log_tables(self) -> Float[Tensor, "factor *states"]:
        """Write every factor as a table, the last variable of its scope fastest."""
        self.refuse_real()
        device = self.scopes.device
        factor = torch.arange(self.num_factors, device=device).repeat_interleave(self.table_size)
        values = joint_states(self.sizes, device).T.repeat(1, self.num_factors)
        return self.log_values_at(factor, values).reshape(self.num_factors, *self.sizes)

    def log_tables_with_missing(self) -> Float[Tensor, "factor *states_and_missing"]:
        """Write every factor as a table in which each variable has one more state: missing.

        A missing variable is taken as the mean over its states, which for spins, -1 or +1, is the
        value zero.
        """
        tables = self.log_tables()
        for axis in range(1, tables.ndim):
            tables = torch.cat((tables, tables.mean(axis, keepdim=True)), axis)
        return tables

    def scope_values(self, columns: Columns) -> Num[Tensor, "arity factor batch"]:
        """Gather the values of each factor's scope."""
        gathered = columns.index_select(0, self.scopes.T.reshape(-1))
        return gathered.reshape(self.arity, self.num_factors, columns.shape[1])

    def quadratic_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> tuple[Float[Tensor, "some batch"], Float[Tensor, "some batch"]]:
        """Precision and shift of the real variable at a place, given the others, if quadratic."""
        raise ModelError(f"factors of {type(self).__name__} are not quadratic")

    @abstractmethod
    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""

    @abstractmethod
    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""

    def select(self: Group, index: Int[Tensor, "chosen"]) -> Group:
        """Return the group of some of the factors."""
        return replace(
            self,
            **{
                name: value.index_select(0, index)
                for name, value in self._tensors().items()
                if value.shape[:1] == self.ids.shape
            },
        )

    def to(self: Group, device: torch.device | str | None, dtype: torch.dtype | None) -> Group:
        """Return the group on another device or in another floating type."""
        return replace(
            self,
            **{name: moved(value, device, dtype) for name, value in self._tensors().items()},
        )

    def parameters(self) -> Iterator[Tensor]:
        """Yield the tensors that a learner may change."""
        for value in self._tensors().values():
            if value.requires_grad and value.is_leaf:
                yield value

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from self._tensors().items()

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor that the values depend on, as it is: to see whether one has moved."""
        yield from self._tensors().values()

    def _tensors(self) -> dict[str, Tensor]:
        named: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, Tensor)}


def states_of(values: Num[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """States as whole numbers, where they stand beside real values and so are floating ones."""
    return values.long() if values.is_floating_point() else values


def joint_states(
    sizes: Sequence[int], device: torch.device | str = "cpu"
) -> Int[Tensor, "joint arity"]:
    """List all joint states of a scope, the last variable fastest.

    >>> joint_states((2, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if not sizes:
        return torch.zeros(1, 0, dtype=torch.long, device=device)
    grid = torch.cartesian_prod(*(torch.arange(size, device=device) for size in sizes))
    return grid.reshape(-1, len(sizes))  # one range alone comes as a vector


def moved(value: Tensor, device: torch.device | str | None, dtype: torch.dtype | None) -> Tensor:
    """Return a tensor elsewhere: integers change device only, parameters stay parameters."""
    if not value.is_floating_point():
        return value.to(device=device)
    other = value.detach().to(device=device, dtype=dtype, copy=value.requires_grad)
    return other.requires_grad_(value.requires_grad)


@dataclass(frozen=True, eq=False)
class Clamp:
    """Some variables fixed at values, the others renumbered.

    Parameters
    ----------
    values : the value of each fixed variable; anything for those that stay.
    renumbered : new number of each variable that stays, -1 for the fixed ones.
    """

    values: Num[Tensor, "var"]
    renumbered: Int[Tensor, "var"]

    def patterns(
        self, scopes: Int[Tensor, "factor arity"]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Int[Tensor, "chosen"]]]:
        """Split factors by which places of their scope are fixed.

        Yields the fixed places, the free places, and the factors that have them.
        """
        arity = scopes.shape[1]
        fixed: Bool[Tensor, "factor arity"] = self.renumbered[scopes] < 0
        code = (fixed.long() << torch.arange(arity, device=scopes.device)).sum(1)
        for pattern in torch.unique(code).tolist():
            is_fixed = [bool(pattern >> place & 1) for place in range(arity)]
            yield (
                tuple(place for place in range(arity) if is_fixed[place]),
                tuple(place for place in range(arity) if not is_fixed[place]),
                (code == pattern).nonzero().squeeze(1),
            )
