"""What every gradient of the likelihood offers, and how one is chosen by name.

A gradient gives a scalar, the *surrogate*, whose derivative in ``model.parameters()`` is, or
estimates, that of the mean negative log-likelihood of some rows. Most have two phases:

    surrogate = E_negative[ log p~(x) ] - E_positive[ log p~(x) ]

with negative states from p and positive ones from the rows, their missing cells filled in from p
given the others. Gradients differ in where these states come from, and in nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.arguments import (
    MOST_SAMPLES,
    checked_count,
    checked_flag,
    checked_number,
    checked_seed,
)
from deltaai.learning.likelihood.expectations import Expectation, WeightedStates
from deltaai.learning.likelihood.fillings import Fillings
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph
from deltaai.randomness import generator_of
from deltaai.trust import WeightedSamples


@dataclass(frozen=True)
class GradientSettings:
    """What estimates go by; each gradient looks at what concerns it.

    Parameters
    ----------
    num_samples : states of the negative phase: draws of q, or chains.
    num_fillings : fillings of an incomplete row.
    sweeps : of the chains between updates of p.
    q_updates : of q between updates of p.
    q_warmup : updates of q before the first update of p, at most.
    q_ess : effective share of its draws from which on q is near enough to p, and not trained on.
    is_weighted : whether draws of q are weighted by p, with weights that sum to one.
    steps : updates of p in all, over which q's learning rate falls.
    seed : of all that is drawn.
    """

    num_samples: int = 512
    num_fillings: int = 8
    sweeps: int = 5
    q_updates: int = 4
    q_warmup: int = 200
    q_ess: float | int = 0.9
    is_weighted: bool = True
    steps: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_samples", "num_fillings", "sweeps", "q_updates"):
            checked_count(name, getattr(self, name), 1, MOST_SAMPLES)
        for name in ("q_warmup", "steps"):
            checked_count(name, getattr(self, name), 0)
        checked_number("q_ess", self.q_ess, 1)
        checked_flag("is_weighted", self.is_weighted)
        checked_seed(self.seed)


class Gradient(ABC):
    """Estimates the gradient of the mean negative log-likelihood.

    Parameters
    ----------
    model : p, which somebody moves between calls.
    rows : all rows to learn from.
    settings : what estimates go by.
    """

    # Whether the surrogate's value is what is minimised: a line search needs that.
    has_value: ClassVar[bool] = False

    def __init__(self, model: FactorGraph, rows: LearningRows, settings: GradientSettings) -> None:
        self.model, self.rows, self.settings = model, rows, settings
        self.generator = generator_of(settings.seed)

    @abstractmethod
    def surrogate(self, chosen: Int[Tensor, "chosen"]) -> Float[Tensor, ""]:
        """A scalar whose gradient is that of the mean over the chosen rows."""

    def weighted_samples(self, num_samples: int) -> WeightedSamples | None:
        """Weighted states of p as it is, where the gradient can draw some: for log Z."""
        return None

    def fillings(self, rows: Int[Tensor, "row var"], each: int) -> Fillings | None:
        """Rows filled in several times and weighted, where the gradient can do so."""
        return None

    def report(self) -> dict[str, float]:
        """Measurements of the last call, by name."""
        return {}

    def state(self) -> dict[str, Any]:
        """All that later calls depend on beside the model, for a checkpoint."""
        return {"generator": self.generator.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave; the model is restored by then."""
        self.generator.set_state(state["generator"])


class PhasedGradient(Gradient):
    """A positive phase and a negative phase; complete rows need no filling in."""

    def surrogate(self, chosen: Int[Tensor, "chosen"]) -> Float[Tensor, ""]:
        """Negative minus positive phase."""
        self.follow()
        negative = self.negative()
        total = negative.log_score(self.model)
        for positive in self.positive(chosen):
            total = total - positive.log_score(self.model)
        return total

    def positive(self, chosen: Int[Tensor, "chosen"]) -> list[Expectation]:
        """Expectations whose weights sum to one: complete rows, and incomplete ones filled in."""
        is_complete, count = self.rows.is_complete[chosen], len(chosen)
        complete, incomplete = chosen[is_complete], chosen[~is_complete]
        found: list[Expectation] = []
        if len(complete):
            share = len(complete) / count
            found.append(WeightedStates.even(self.rows.states[complete], share))
        if len(incomplete):
            found.append(self.filled(incomplete, len(incomplete) / count))
        return found

    def follow(self) -> None:
        """Let what stands for p come nearer to where p is now."""

    @abstractmethod
    def negative(self) -> Expectation:
        """States of p as it is, with weights that sum to one."""

    @abstractmethod
    def filled(self, incomplete: Int[Tensor, "chosen"], share: float) -> Expectation:
        """States of p given the observed cells of some rows, with weights that sum to ``share``."""


def all_of(rows: LearningRows) -> Int[Tensor, "row"]:
    """The numbers of all rows."""
    return torch.arange(len(rows), device=rows.states.device)
