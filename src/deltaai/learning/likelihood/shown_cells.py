"""Evidence as rows have it: the cells that a row shows are what is observed.

A q that fills in missing cells need be good for the rows that there are, and, where states of p
itself are drawn from it as well, for no evidence at all.
"""

from __future__ import annotations

import torch

from deltaai.conditionals import Observed
from deltaai.models import Columns
from deltaai.randomness import uniform
from deltaai.sampling import EvidenceKind


class ShownCells(EvidenceKind):
    """Observed is what is not -1 in a column; in a share of the columns, nothing.

    Parameters
    ----------
    empty_share : share of the columns without evidence.
    """

    def __init__(self, empty_share: float) -> None:
        self.empty_share = empty_share

    def choose(self, columns: Columns, generator: torch.Generator | None) -> Observed:
        """Take what each column shows, or nothing."""
        shape, device = columns.shape[1:], columns.device
        chance = uniform(shape, generator, dtype=torch.float32, device=device)
        return (columns >= 0) & (chance >= self.empty_share)

    def usual(self, columns: Columns) -> Observed:
        """Nothing."""
        return torch.zeros_like(columns, dtype=torch.bool)
