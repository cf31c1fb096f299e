"""Groups that ask another group and change its answers: what all of them hand down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.models.factors import Factor, TableFactor
from deltaai.models.groups import FactorGroup
from deltaai.models.variable import Variable

Wrapped = TypeVar("Wrapped", bound="WrappedGroup")


@dataclass(frozen=True, eq=False)
class WrappedGroup(FactorGroup):
    """A group over another one.

    Parameters
    ----------
    base : the group underneath.
    """

    base: FactorGroup

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.base.dtype

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as tables."""
        return as_tables(self, variables)

    def select(self: Wrapped, index: Int[Tensor, "chosen"]) -> Wrapped:
        """Return the group of some of the factors."""
        return replace(super().select(index), base=self.base.select(index))

    def to(self: Wrapped, device: torch.device | str | None, dtype: torch.dtype | None) -> Wrapped:
        """Return the group on another device or in another floating type."""
        return replace(super().to(device, dtype), base=self.base.to(device, dtype))

    def parameters(self) -> Iterator[Tensor]:
        """Yield the tensors that a learner may change."""
        yield from self.base.parameters()

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor that the values depend on, as it is."""
        yield from super().tensors()
        yield from self.base.tensors()


def as_tables(group: FactorGroup, variables: Sequence[Variable]) -> list[Factor]:
    """Write the factors of a group out, one by one; those over real variables as functions."""
    if not group.has_tables:
        from deltaai.models.function_group import FunctionFactor  # noqa: PLC0415  which is a group

        return [
            FunctionFactor([variables[v].name for v in scope], partial(_values_of, group, number))
            for number, scope in enumerate(group.scopes.tolist())
        ]
    return [
        TableFactor([variables[v].name for v in scope], table.detach())
        for scope, table in zip(group.scopes.tolist(), group.log_tables(), strict=True)
    ]


def _values_of(group: FactorGroup, number: int, values: Tensor) -> Tensor:
    """One factor of a group at values of its scope."""
    factor = torch.full((len(values),), number, dtype=torch.long, device=values.device)
    return group.log_values_at(factor, values.T)
