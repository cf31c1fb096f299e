"""Heads for states: logits relative to the first state, or nothing where states are given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.base import Exploration, Head, LogDensity, Parameters, Values
from deltaai.models import encode_states, num_features
from deltaai.randomness import uniform


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
        full = with_first(parameters)
        chosen = full.gather(-2, values.long().unsqueeze(-2)).squeeze(-2)
        return chosen - full.logsumexp(-2)

    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Difference of two logits."""
        if self.num_states == 2:
            return (values - others).to(parameters.dtype) * parameters.squeeze(-2)
        full = with_first(parameters)
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
        probabilities = torch.softmax(with_first(parameters), dim=-2)
        if share:
            probabilities = probabilities + share * (1 / self.num_states - probabilities)
        cumulative = probabilities.cumsum(-2)
        reached = cumulative[..., :-1, :] <= threshold.unsqueeze(-2) * cumulative[..., -1:, :]
        return reached.sum(-2)

    def propose(
        self,
        values: Values,
        generator: torch.Generator | None,
        parameters: Parameters | None = None,
    ) -> Values:
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


def with_first(parameters: Parameters) -> Float[Tensor, "*lead state batch"]:
    """Put the first state's logit, zero, in front."""
    shape = (*parameters.shape[:-2], 1, parameters.shape[-1])
    return torch.cat((parameters.new_zeros(shape), parameters), dim=-2)
