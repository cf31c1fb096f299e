"""Heads: what a conditional does with the numbers that a body computes for its variable.

A body maps what is known to *parameters*, some for each variable; the head of the variable gives
them a meaning: a density of values, how to draw one, what else the value could be, and how a value
looks to the bodies of other variables. Everything that knows what kind of variable there is stands
here; layouts, bodies, objectives and sampling ask the head.

Shapes: ``*lead`` are variables, pairs or the like, then the parameters, then the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models import encode_states, num_features
from deltaai.randomness import uniform

Parameters = Float[Tensor, "*lead parameter batch"]
Values = Int[Tensor, "*lead batch"]
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
    def propose(self, values: Values, generator: torch.Generator | None) -> Values:
        """Draw another value for each, to compare with."""

    @abstractmethod
    def encode(self, values: Values, dtype: torch.dtype) -> Float[Tensor, "*lead feature batch"]:
        """Values as features."""


@dataclass(frozen=True)
class Categorical(Head):
    """States 0, ..., K-1; parameters are logits relative to the first state, so one fewer.

    Parameters
    ----------
    num_states : K.
    """

    num_states: int

    @property
    def num_parameters(self) -> int:
        """Relative logits."""
        return self.num_states - 1

    @property
    def num_features(self) -> int:
        """One number for two states, K for any other K."""
        return num_features(self.num_states)

    def log_density(self, parameters: Parameters, values: Values) -> LogDensity:
        """Log-probability of states."""
        if self.num_states == 2:
            sign = values.to(parameters.dtype).mul(2).sub(1)
            return torch.nn.functional.logsigmoid(sign * parameters.squeeze(-2))
        full = _with_first(parameters)
        chosen = full.gather(-2, values.long().unsqueeze(-2)).squeeze(-2)
        return chosen - full.logsumexp(-2)

    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Difference of two logits."""
        if self.num_states == 2:
            return (values - others).to(parameters.dtype) * parameters.squeeze(-2)
        full = _with_first(parameters)
        here = full.gather(-2, values.long().unsqueeze(-2))
        there = full.gather(-2, others.long().unsqueeze(-2))
        return (here - there).squeeze(-2)

    def sample(
        self,
        parameters: Parameters,
        exploration: Exploration,
        scale: Float[Tensor, "*lead batch"] | None,
        generator: torch.Generator | None,
    ) -> Values:
        """Draw states."""
        if scale is not None:
            parameters = parameters * scale.unsqueeze(-2)
        elif exploration.temperature != 1:
            parameters = parameters / exploration.temperature
        shape = (*parameters.shape[:-2], parameters.shape[-1])
        threshold = uniform(shape, generator, dtype=parameters.dtype, device=parameters.device)
        share = exploration.uniform_share
        if self.num_states == 2:
            second = torch.sigmoid(parameters.squeeze(-2))
            if share:
                second = second + share * (0.5 - second)
            return (threshold < second).long()
        probabilities = torch.softmax(_with_first(parameters), dim=-2)
        if share:
            probabilities = probabilities + share * (1 / self.num_states - probabilities)
        cumulative = probabilities.cumsum(-2)
        reached = cumulative[..., :-1, :] <= threshold.unsqueeze(-2) * cumulative[..., -1:, :]
        return reached.sum(-2)

    def propose(self, values: Values, generator: torch.Generator | None) -> Values:
        """Another state, uniform over those that are not there; the only one stays."""
        if self.num_states <= 2:
            return self.num_states - 1 - values
        chance = uniform(values.shape, generator, dtype=torch.float32, device=values.device)
        others = self.num_states - 1
        step = (chance * others).to(values.dtype).clamp(max=others - 1) + 1
        return (values + step) % self.num_states

    def encode(self, values: Values, dtype: torch.dtype) -> Float[Tensor, "*lead feature batch"]:
        """A spin for two states, one-hot for any other number."""
        return encode_states(values, self.num_states, dtype)


@dataclass(frozen=True)
class GivenStates(Categorical):
    """States that are always given: seen by other variables, with no conditional of their own."""

    @property
    def num_parameters(self) -> int:
        """None."""
        return 0

    def log_density(self, parameters: Parameters, values: Values) -> LogDensity:
        """Nothing to say of what is given."""
        return torch.zeros(values.shape, dtype=parameters.dtype, device=parameters.device)

    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Nothing to say of what is given."""
        return self.log_density(parameters, values)


def _with_first(parameters: Parameters) -> Float[Tensor, "*lead state batch"]:
    """Put the first state's logit, zero, in front."""
    shape = (*parameters.shape[:-2], 1, parameters.shape[-1])
    return torch.cat((parameters.new_zeros(shape), parameters), dim=-2)
