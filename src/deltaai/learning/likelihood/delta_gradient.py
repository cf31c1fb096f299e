"""The paper's way: negative states from an amortised q that follows p.

Between two updates of p, q is trained a little for where p is now, if its last draws were uneven,
and drawn from: without
evidence for the negative phase, given a row's observed cells for its missing ones. q lags behind p,
and importance weights know by how much:

    E_p[ ∇ log p~ ] ≈ Σ_i w̄_i ∇ log p~(x_i),    x_i ~ q,   w̄_i ∝ p~(x_i) / q(x_i)

By default states are weighted, with weights that sum to one, in the negative phase over all draws
and in the positive one over the fillings of each row, island by island
(:mod:`deltaai.learning.likelihood.fillings`): the bias of a q that is a little off turns
into variance that falls with the number of draws. Unweighted, what q has not learned yet stays in
the gradient, however many are drawn: on 3 x 3 grids with strong factors and three cells in ten
missing, the largest error of the gradient was three times that of the weighted one, and the same
within noise where q was good. Weights know nothing of a mode that q has lost.

Where fewer than a share ``FEWEST_EFFECTIVE`` of the draws would be effective, weights are raised to
a power below one until as many are, for the noise of few heavy states is worse than the bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.learning.likelihood.expectations import (
    Expectation,
    WeightedFactors,
    WeightedStates,
)
from deltaai.learning.likelihood.fillings import Fillings
from deltaai.learning.likelihood.following import Follower
from deltaai.learning.likelihood.gradients import GradientSettings, PhasedGradient
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph, Target
from deltaai.trust import WeightedSamples

FEWEST_EFFECTIVE = 0.1
_WARMUP_UPDATES, _WARMUP_SAMPLES = 20, 500
_HALVINGS = 20


class DeltaGradient(PhasedGradient):
    """Negative states and missing cells from a q that is trained with the Delta objective."""

    def __init__(self, model: FactorGraph, rows: LearningRows, settings: GradientSettings) -> None:
        super().__init__(model, rows, settings)
        self.follower = Follower(model, rows, settings)
        self._is_warm = False
        self._report: dict[str, float] = {}

    def follow(self) -> None:
        """Train q for p as it is, unless it is near enough; longer before the first update of p."""
        settings = self.settings
        if not self._is_warm:
            self._is_warm = True
            for start in range(0, settings.q_warmup, _WARMUP_UPDATES):
                self.follower.follow(min(_WARMUP_UPDATES, settings.q_warmup - start))
                _, log_weights = self.follower.draw(_WARMUP_SAMPLES, self.generator)
                # Fillings are not looked at: that q is good for no evidence says little of them.
                if not self.rows.has_missing and ess_fraction(log_weights[None]) >= settings.q_ess:
                    break
        elif min(self._report.values(), default=0.0) < settings.q_ess:
            self.follower.follow(settings.q_updates)

    def negative(self) -> Expectation:
        """States of q, weighted."""
        states, log_weights = self.follower.draw(self.settings.num_samples, self.generator)
        self._report = {"ess": ess_fraction(log_weights[None])}
        if not self.settings.is_weighted:
            return WeightedStates.even(states, 1.0)
        return WeightedStates(states, flattened_weights(log_weights[None]).squeeze(0))

    def filled(self, incomplete: Int[Tensor, "chosen"], share: float) -> Expectation:
        """States of q given the observed cells, weighted within each island of a row."""
        rows, each = self.rows.states[incomplete], self.settings.num_fillings
        found = self.follower.fill(rows, each, self.generator)
        self._report["ess_filled"] = found.effective_share
        states, part = found.states.flatten(0, 1), share / len(rows)
        if not self.settings.is_weighted:
            return WeightedStates.even(states, share)
        weights = tuple(part * found.weights_of(group) for group in self.model.groups)
        return WeightedFactors(states, weights)

    def fillings(self, rows: Int[Tensor, "row var"], each: int) -> Fillings:
        """Rows filled in by q as it is."""
        return self.follower.fill(rows, each, self.generator)

    def weighted_samples(self, num_samples: int) -> WeightedSamples:
        """States of q as it is, with their weights."""
        states, log_weights = self.follower.draw(num_samples, self.generator)
        scorer = Target(self.model).now(torch.float64)
        return WeightedSamples(scorer, states, log_weights, {}, method="draws of q")

    def report(self) -> dict[str, float]:
        """Effective share of the last draws, of the negative phase and of fillings."""
        return dict(self._report)

    def state(self) -> dict[str, Any]:
        """Where q stands."""
        return {
            **super().state(),
            "q": self.follower.state(),
            "is_warm": self._is_warm,
            "report": self._report,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up q."""
        super().restore(state)
        self.follower.restore(state["q"])
        self._is_warm, self._report = state["is_warm"], dict(state["report"])


def ess_fraction(log_weights: Float64[Tensor, "group sample"]) -> float:
    """Effective share of the samples of a group, on average."""
    shares = log_weights.softmax(1).square().sum(1).reciprocal() / log_weights.shape[1]
    return float(shares.mean())


def flattened_weights(
    log_weights: Float64[Tensor, "group sample"], fewest: float = FEWEST_EFFECTIVE
) -> Float64[Tensor, "group sample"]:
    """Weights that sum to one, raised to a power below one where too few would be effective.

    >>> even = torch.zeros(1, 4, dtype=torch.float64)
    >>> flattened_weights(even).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    power = 1.0
    for _ in range(_HALVINGS):
        if ess_fraction(power * log_weights) >= fewest:
            break
        power /= 2
    return (power * log_weights).softmax(1)
