"""Which variables are evidence while q is being trained.

Objectives are correct for evidence from anywhere, so what is drawn only says where q is to be good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from deltaai.conditionals import Observed
from deltaai.errors import ConfigError, Setting
from deltaai.models import Columns
from deltaai.randomness import integers, uniform

_EMPTY_SHARE = 0.1  # of columns, without evidence


class EvidenceKind(ABC):
    """Draws which variables of likely states are evidence."""

    @abstractmethod
    def choose(self, columns: Columns, generator: torch.Generator | None) -> Observed:
        """Say which variables are observed in each column."""

    @abstractmethod
    def usual(self, columns: Columns) -> Observed:
        """Say what is observed when q is judged in the course of training."""


class AnyEvidence(EvidenceKind):
    """Random sets of observed variables, of random size.

    Parameters
    ----------
    most_observed : variables that are observed in a column at most.
    num_variables : of the model.
    """

    def __init__(self, most_observed: int, num_variables: int) -> None:
        if not 0 <= most_observed <= num_variables:
            raise ConfigError(
                Setting("most_observed"),
                f" is {most_observed}; it must be between 0 and the number of variables, "
                f"{num_variables}",
            )
        self.most_observed = most_observed

    def choose(self, columns: Columns, generator: torch.Generator | None) -> Observed:
        """Take as many variables as a random number says, none at all in some columns."""
        size, device = columns.shape[1], columns.device
        number = integers(self.most_observed + 1, (size,), generator, device)
        chance = uniform((size,), generator, dtype=torch.float32, device=device)
        number = number.masked_fill(chance < _EMPTY_SHARE, 0)
        chances = uniform(columns.shape, generator, dtype=torch.float32, device=device)
        return chances.argsort(0).argsort(0) < number

    def usual(self, columns: Columns) -> Observed:
        """Nothing."""
        return torch.zeros_like(columns, dtype=torch.bool)


class FixedEvidence(EvidenceKind):
    """Always the same observed variables.

    Parameters
    ----------
    variables : the observed ones.
    """

    def __init__(self, variables: Sequence[int]) -> None:
        self.variables = tuple(variables)

    def choose(self, columns: Columns, generator: torch.Generator | None) -> Observed:
        """Take the same variables in all columns."""
        return self.usual(columns)

    def usual(self, columns: Columns) -> Observed:
        """The variables."""
        observed = torch.zeros_like(columns, dtype=torch.bool)
        observed[list(self.variables)] = True
        return observed
