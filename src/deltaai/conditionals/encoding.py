"""Values of all variables as features, one row each, by the heads of the variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals.heads import Categorical, Head
from deltaai.models import Columns


@dataclass(frozen=True, eq=False)
class Alike:
    """Variables with equal heads, which are handled together.

    Parameters
    ----------
    head : their head.
    variables : which they are.
    rows : their feature rows.
    """

    head: Head
    variables: Int[Tensor, "some"]
    rows: Int[Tensor, "some feature"]


@dataclass(frozen=True, eq=False)
class Encoding:
    """Where the features of each variable stand among all features, one row each.

    A last row of zeros follows, for inputs that are not there.

    Parameters
    ----------
    heads : of each variable.
    device : where its indices are.
    """

    heads: tuple[Head, ...]
    device: torch.device

    @classmethod
    def of(cls, variables: Sequence[int | Head], device: torch.device | str = "cpu") -> Encoding:
        """Lay out the features of variables with these numbers of states, or heads."""
        heads = (Categorical(v) if isinstance(v, int) else v for v in variables)
        return cls(tuple(heads), torch.device(device))

    @cached_property
    def num_features(self) -> tuple[int, ...]:
        """Features of each variable."""
        return tuple(head.num_features for head in self.heads)

    @cached_property
    def first_row(self) -> tuple[int, ...]:
        """First feature row of each variable."""
        firsts, row = [], 0
        for count in self.num_features:
            firsts.append(row)
            row += count
        return tuple(firsts)

    @cached_property
    def first_rows(self) -> Int[Tensor, "var"]:
        """First feature row of each variable, as a tensor."""
        return torch.tensor(self.first_row, dtype=torch.long, device=self.device)

    @cached_property
    def owners(self) -> Int[Tensor, "row"]:
        """Variable of each feature row."""
        counts = torch.tensor(self.num_features, dtype=torch.long, device=self.device)
        return torch.arange(len(counts), device=self.device).repeat_interleave(counts)

    @cached_property
    def num_rows(self) -> int:
        """Number of feature rows, the row of zeros not counted."""
        return sum(self.num_features)

    @property
    def zero_row(self) -> int:
        """The row of zeros."""
        return self.num_rows

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """All variables, those with equal heads together."""
        found = []
        for head in dict.fromkeys(self.heads):
            numbers = [v for v, other in enumerate(self.heads) if other == head]
            variables = torch.tensor(numbers, dtype=torch.long, device=self.device)
            features = torch.arange(head.num_features, device=self.device)
            found.append(Alike(head, variables, self.first_rows[variables][:, None] + features))
        return tuple(found)

    def encode(
        self, columns: Columns, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "row batch"]:
        """Encode full states, the row of zeros included."""
        features = torch.zeros(
            self.num_rows + 1, columns.shape[1], dtype=dtype, device=columns.device
        )
        if len(self.alike) == 1:
            encoded = self.alike[0].head.encode(columns, dtype)
            features[:-1] = encoded.flatten(0, 1)
            return features
        for same in self.alike:
            encoded = same.head.encode(columns.index_select(0, same.variables), dtype)
            features.index_copy_(0, same.rows.flatten(), encoded.flatten(0, 1))
        return features

    def write(
        self,
        features: Float[Tensor, "row *where batch"],
        variables: Int[Tensor, "some"],
        states: Num[Tensor, "some batch"],
        *where: Int[Tensor, "some"],
    ) -> None:
        """Encode the states of some variables, all with equal heads, in place.

        Parameters
        ----------
        features : rows as :meth:`encode` gives them, perhaps with further axes in between.
        variables, states : what to write.
        where : for each further axis, where each variable's row is.
        """
        head = self.heads[int(variables[0])]
        encoded = head.encode(states, features.dtype)
        first = self.first_rows[variables]
        for feature in range(head.num_features):
            features[(first + feature, *where)] = encoded[:, feature]

    def propose(self, columns: Columns, generator: torch.Generator | None) -> Columns:
        """Another value for every variable; one that has no other keeps its own."""
        if len(self.alike) == 1:
            return self.alike[0].head.propose(columns, generator)
        others = columns.clone()
        for same in self.alike:
            proposed = same.head.propose(columns.index_select(0, same.variables), generator)
            others.index_copy_(0, same.variables, proposed)
        return others
