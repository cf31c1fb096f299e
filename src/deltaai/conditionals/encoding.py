"""States as numbers for a network: -1 or +1 for two states, one-hot for any other number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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

    @property
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
        batch, device = columns.shape[1], columns.device
        if self.num_rows == len(self.num_features):  # all binary (or with one state)
            spins = columns.to(dtype).mul_(2).sub_(1)
            return torch.cat((spins, spins.new_zeros(1, batch)))
        counts = torch.tensor(self.num_features, device=device)
        owner = torch.arange(len(counts), device=device).repeat_interleave(counts)
        starts = torch.tensor(self.first_row, device=device)[owner]
        state = torch.arange(self.num_rows, device=device) - starts
        values = columns.index_select(0, owner).long()
        one_hot = (values == state[:, None]).to(dtype)
        spins = (2 * values - 1).to(dtype)
        rows = torch.where((counts == 1)[owner][:, None], spins, one_hot)
        return torch.cat((rows, rows.new_zeros(1, batch)))
