"""Evidence as rows have it: which cells are observed together.

A q that fills in missing cells need be good for the patterns that occur, and for no evidence at
all, which is the negative phase.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.conditionals import Observed
from deltaai.randomness import integers, uniform
from deltaai.sampling import EvidenceKind

_EMPTY_SHARE = 0.5  # of columns, without evidence


class RowPatterns(EvidenceKind):
    """Sets of observed variables of rows at random; none at all in half of the columns.

    Parameters
    ----------
    observed : which cells of each incomplete row are observed.
    """

    def __init__(self, observed: Bool[Tensor, "row var"]) -> None:
        self._columns = observed.T.contiguous()

    def choose(
        self, columns: Int[Tensor, "var batch"], generator: torch.Generator | None
    ) -> Observed:
        """Take the pattern of a random row for each column, or nothing."""
        size, device = columns.shape[1], columns.device
        number = integers(self._columns.shape[1], (size,), generator, device)
        chance = uniform((size,), generator, dtype=torch.float32, device=device)
        return self._columns[:, number] & (chance >= _EMPTY_SHARE)

    def usual(self, columns: Int[Tensor, "var batch"]) -> Observed:
        """Nothing."""
        return torch.zeros_like(columns, dtype=torch.bool)
