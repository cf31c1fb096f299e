"""Expected log scores: what both phases of the likelihood's gradient are made of.

The gradient of the mean log-likelihood of rows (equation key ``ebm-gradient``) is

    E_data[ ∇ log p~(x) ] - E_p[ ∇ log p~(x) ],    log p~(x) = Σ_k log φ_k(x_{S_k}),

so all that a method must supply is two expectations. An expectation is held as weighted states,
with one weight or one for each factor, or as expected counts of every factor's joint states; all
turn into a number whose gradient reaches the parameters of any kind of factor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models import FactorGraph


class Expectation(ABC):
    """A measure over states, through which log scores are averaged."""

    @abstractmethod
    def log_score(self, model: FactorGraph) -> Float[Tensor, ""]:
        """Sum of the log scores of all states, each times its weight."""


@dataclass(frozen=True, eq=False)
class WeightedStates(Expectation):
    """States with weights.

    Parameters
    ----------
    states : full states.
    weights : one each.
    """

    states: Int[Tensor, "sample var"]
    weights: Float[Tensor, "sample"]

    @classmethod
    def even(cls, states: Int[Tensor, "sample var"], total: float) -> WeightedStates:
        """States of the same weight, with a given sum."""
        each = total / max(len(states), 1)
        weights = torch.full((len(states),), each, dtype=torch.float64, device=states.device)
        return cls(states, weights)

    def log_score(self, model: FactorGraph) -> Float[Tensor, ""]:
        """Sum of the log scores of all states, each times its weight."""
        return (self.weights * model.log_score(self.states).double()).sum()


@dataclass(frozen=True, eq=False)
class WeightedFactors(Expectation):
    """States that have a weight for each factor.

    Parameters
    ----------
    states : full states.
    by_group : for each group of the model, weights of its factors at each state.
    """

    states: Int[Tensor, "sample var"]
    by_group: tuple[Float[Tensor, "factor sample"], ...]

    def log_score(self, model: FactorGraph) -> Float[Tensor, ""]:
        """Sum of the log-values of all factors at all states, each times its weight."""
        total = torch.zeros((), dtype=torch.float64, device=model.device)
        columns = model.columns(self.states)
        for group, weights in zip(model.groups, self.by_group, strict=True):
            total = total + (weights * group.log_values(columns).double()).sum()
        return total


@dataclass(frozen=True, eq=False)
class ExpectedTables(Expectation):
    """How often each factor's scope is in each joint state, on average.

    Parameters
    ----------
    by_group : one tensor a group of the model.
    weight : what all of them are multiplied by.
    """

    by_group: tuple[Float[Tensor, "factor *states"], ...]
    weight: float = 1.0

    def log_score(self, model: FactorGraph) -> Float[Tensor, ""]:
        """Sum of all log-tables, each entry times how often it occurs."""
        total = torch.zeros((), dtype=torch.float64, device=model.device)
        for group, counts in zip(model.groups, self.by_group, strict=True):
            total = total + (counts.to(model.device) * group.log_tables().double()).sum()
        return self.weight * total
