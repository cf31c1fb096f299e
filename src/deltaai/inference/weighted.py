"""Weighted samples given evidence, and what follows from them.

For states x that agree with evidence e, drawn from q with importance weights w, the mean of w
estimates Z(e) = Σ_{x agreeing with e} p~(x), and posterior marginals are weighted means. Each
sample stands for all values of a variable at once (Rao and Blackwell):

    p(x_v = k | e) ≈ Σ_i w_i p(x_v = k | all others in x_i) / Σ_i w_i

where the conditional on all others needs the factors with v alone, and takes most of the noise of
counting away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.models import FactorGraph, States
from deltaai.sampling.importance import (
    ImportanceEstimate,
    estimate_from_log_weights,
    normalised_weights,
)


@dataclass(frozen=True, eq=False)
class WeightedSamples:
    """States that agree with evidence, with importance weights.

    Parameters
    ----------
    model : the target.
    states : one row each.
    log_weights : log of p~(x) / q(x given the evidence).
    observed : observed variables and their states.
    group_size : successive samples that depend on each other; others are independent.
    """

    model: FactorGraph
    states: Int[Tensor, "sample var"]
    log_weights: Float64[Tensor, "sample"]
    observed: dict[int, int]
    group_size: int = 1

    @cached_property
    def estimate(self) -> ImportanceEstimate:
        """Log Z given the evidence, with standard error, effective sample size and k-hat."""
        each = estimate_from_log_weights(self.log_weights)
        if self.group_size == 1:
            return each
        parts = torch.split(self.log_weights, self.group_size)
        means = torch.stack([part.logsumexp(0) - math.log(len(part)) for part in parts])
        groups = estimate_from_log_weights(means)
        share = min(each.ess_fraction, groups.ess_fraction)
        return replace(each, stderr=groups.stderr, ess=share * each.num_samples, ess_fraction=share)

    def marginals(self, *, is_weighted: bool = True) -> dict[str, np.ndarray]:
        """Probabilities of every variable's states; observed ones are certain.

        Without weights they are those of q, which is what a q to be judged is asked for.
        """
        weights = torch.full_like(self.log_weights, 1 / max(len(self.log_weights), 1))
        if is_weighted:
            weights = normalised_weights(self.log_weights)
        with torch.no_grad():
            scores = self.model.local_log_scores(self.states).double()
        found = {}
        offsets = self.model.state_offsets.tolist()
        for number, variable in enumerate(self.model.variables):
            if number in self.observed:
                certain = np.zeros(variable.num_states)
                certain[self.observed[number]] = 1
                found[variable.name] = certain
                continue
            local = scores[:, offsets[number] : offsets[number + 1]].softmax(1)
            found[variable.name] = (weights @ local).cpu().numpy()
        return found

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> States:
        """Draw states with probabilities in proportion to their weights, with replacement."""
        weights = normalised_weights(self.log_weights)
        chosen = torch.multinomial(weights, num_samples, replacement=True, generator=generator)
        return self.states[chosen]
