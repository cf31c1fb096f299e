"""Heads: what a conditional does with the numbers that a body computes for its variable.

A body maps what is known to *parameters*, some for each variable; the head of the variable gives
them a meaning: a density of values, how to draw one, what else the value could be, and how a value
looks to the bodies of other variables. Everything that knows what kind of variable there is stands
in this folder; layouts, bodies, objectives and sampling ask the head.

Shapes: ``*lead`` are variables, pairs or the like, then the parameters, then the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

Parameters = Float[Tensor, "*lead parameter batch"]
Values = Num[Tensor, "*lead batch"]  # whole numbers for states, floating ones if real
LogDensity = Float[Tensor, "*lead batch"]


@dataclass(frozen=True)
class Exploration:
    """How drawing departs from the conditional itself.

    Parameters
    ----------
    temperature : flattens the conditional if above one.
    uniform_share : share of the uniform distribution mixed in.
    """

    temperature: float = 1.0
    uniform_share: float = 0.0


class Head(ABC):
    """One kind of variable. Equal heads are evaluated together, so they compare by value."""

    @property
    def is_real(self) -> bool:
        """Whether its values are real numbers rather than states."""
        return False

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Numbers that a body gives for a variable."""

    @property
    @abstractmethod
    def num_features(self) -> int:
        """Numbers that stand for a value among the inputs of other variables."""

    @abstractmethod
    def log_density(self, parameters: Parameters, values: Values) -> LogDensity:
        """Log q of values."""

    @abstractmethod
    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Log q(value) - log q(other), for which no normaliser is needed."""

    @abstractmethod
    def sample(
        self,
        parameters: Parameters,
        exploration: Exploration,
        scale: Float[Tensor, "*lead batch"] | None,
        generator: torch.Generator | None,
    ) -> Values:
        """Draw values.

        Parameters
        ----------
        scale : inverse temperatures that differ between samples, in place of the one temperature.
        """

    @abstractmethod
    def propose(
        self,
        values: Values,
        generator: torch.Generator | None,
        parameters: Parameters | None = None,
    ) -> Values:
        """Draw another value for each, to compare with.

        Parameters
        ----------
        parameters : of the conditionals; states do without, real values are drawn from them.
        """

    @abstractmethod
    def encode(self, values: Values, dtype: torch.dtype) -> Float[Tensor, "*lead feature batch"]:
        """Values as features."""
