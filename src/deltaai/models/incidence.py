"""Which factors touch a variable: the index behind single-variable changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which factors of a group contain a variable, and at which place: rows of varying length."""

    offsets: Int[Tensor, "var_plus_one"]
    factor: Int[Tensor, "entry"]
    place: Int[Tensor, "entry"]

    @classmethod
    def build(cls, scopes: Int[Tensor, "factor arity"], num_variables: int) -> Incidence:
        """Sort all (factor, place) entries by the variable that stands there."""
        arity = scopes.shape[1]
        variables = scopes.reshape(-1)
        order = variables.argsort(stable=True)
        counts = torch.bincount(variables, minlength=num_variables)
        offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        width = max(arity, 1)
        return cls(offsets, order // width, order % width)

    def of(
        self, variable: Int[Tensor, "batch"]
    ) -> tuple[Int[Tensor, "pair"], Int[Tensor, "pair"], Int[Tensor, "pair"]]:
        """Row, factor and place of every factor that contains its row's variable."""
        start, stop = self.offsets[variable], self.offsets[variable + 1]
        count = stop - start
        row = torch.arange(len(variable), device=variable.device).repeat_interleave(count)
        before = count.cumsum(0) - count
        entry = start[row] + torch.arange(len(row), device=variable.device) - before[row]
        return row, self.factor[entry], self.place[entry]
