"""States as numbers for a network: -1 or +1 for two states, one-hot for any other number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Encoding:
    """Where the features of each variable stand among all features, one row each.

    A last row of zeros follows, for inputs that are not there.

    Parameters
    ----------
    first_row : first feature row of each variable.
    num_features : how many it has: one for two states, K for K others.
    """

    first_row: tuple[int, ...]
    num_features: tuple[int, ...]

    @classmethod
    def of(cls, num_states: Sequence[int]) -> Encoding:
        """Lay out the features of variables with these numbers of states."""
        features = tuple(1 if states == 2 else states for states in num_states)
        firsts, row = [], 0
        for count in features:
            firsts.append(row)
            row += count
        return cls(tuple(firsts), features)

    @cached_property
    def first_rows(self) -> Int[Tensor, "var"]:
        """First feature row of each variable, as a tensor."""
        return torch.tensor(self.first_row, dtype=torch.long, device="cpu")

    @cached_property
    def _owners(self) -> tuple[Int[Tensor, "row"], Int[Tensor, "row"], Bool[Tensor, "row"]]:
        """Variable and state of each feature row, and whether it is a spin."""
        counts = torch.tensor(self.num_features, dtype=torch.long, device="cpu")
        owner = torch.arange(len(counts), device="cpu").repeat_interleave(counts)
        state = torch.arange(len(owner), device="cpu") - self.first_rows[owner]
        return owner, state, (counts == 1)[owner]

    @property
    def owners(self) -> Int[Tensor, "row"]:
        """Variable of each feature row."""
        return self._owners[0]

    @cached_property
    def num_rows(self) -> int:
        """Number of feature rows, the row of zeros not counted."""
        return sum(self.num_features)

    @property
    def zero_row(self) -> int:
        """The row of zeros."""
        return self.num_rows

    def encode(
        self, columns: Int[Tensor, "var batch"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "row batch"]:
        """Encode full states, the row of zeros included."""
        batch = columns.shape[1]
        if self.num_rows == len(self.num_features):  # all binary (or with one state)
            spins = columns.to(dtype).mul_(2).sub_(1)
            return torch.cat((spins, spins.new_zeros(1, batch)))
        owner, state, is_spin = (part.to(columns.device) for part in self._owners)
        values = columns.index_select(0, owner).long()
        one_hot = (values == state[:, None]).to(dtype)
        rows = torch.where(is_spin[:, None], (2 * values - 1).to(dtype), one_hot)
        return torch.cat((rows, rows.new_zeros(1, batch)))

    def write(
        self,
        features: Float[Tensor, "row *where batch"],
        variables: Int[Tensor, "some"],
        states: Int[Tensor, "some batch"],
        *where: Int[Tensor, "some"],
    ) -> None:
        """Encode the states of some variables, all with as many features, in place.

        Parameters
        ----------
        features : rows as :meth:`encode` gives them, perhaps with further axes in between.
        variables, states : what to write.
        where : for each further axis, where each variable's row is.
        """
        first, count = self.first_rows[variables], self.num_features[int(variables[0])]
        if count == 1:
            features[(first, *where)] = states.to(features.dtype).mul_(2).sub_(1)
            return
        for state in range(count):
            features[(first + state, *where)] = (states == state).to(features.dtype)
