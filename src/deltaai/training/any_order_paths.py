"""Training an any-order GFlowNet: the task that the loop drives.

Paths are drawn from the forward policy, with whatever exploration, and the losses of a balance
objective are averaged over them. The policy is judged by importance weights of whole paths,

    log w = log p~(x) + log P_B(τ | x) - log P_F(τ),     τ ~ P_F ending at x,

whose mean is Z for any backward policy, since that is a distribution over the paths to x. They
vary more than weights of x alone would, so their effective sample size is a lower bound.

There are no orders to redraw: the policy picks one for each path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.conditionals import refuse_zeros
from deltaai.errors import ModelError, TrainingError
from deltaai.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.models import Columns, FactorGraph, Target
from deltaai.objectives import AnyOrderObjective
from deltaai.sampling import AnyOrderPolicy, Policy
from deltaai.training.task import Task


class AnyOrderTask(Task):
    """Paths of an any-order policy and a balance objective at them.

    Parameters
    ----------
    model : the target.
    sampler : the policy to train, in place.
    objective : what it is trained with; it learns log Z at a rate of its own.
    """

    def __init__(
        self, model: FactorGraph, sampler: AnyOrderPolicy, objective: AnyOrderObjective
    ) -> None:
        refuse_zeros(model)
        if tuple(model.num_states.tolist()) != sampler.num_states:
            raise ModelError(
                f"the policy is for {sampler.num_variables} variables with other numbers of states "
                f"than the {model.num_variables} of the model: build it from model.num_states"
            )
        self.sampler = sampler
        self.objective = objective
        self.trained = nn.ModuleDict({"policy": sampler, "objective": objective})
        self.target = Target(model)
        self.beta: float | int = 1.0

    @property
    def scorer(self) -> FactorGraph:
        """The target in double precision: scores of large models are sums of many factors."""
        return self.target.now(torch.float64)

    def target_parameters(self) -> Iterator[Tensor]:
        """Parameters of the target, if it learns."""
        yield from self.target.model.parameters()

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups for an optimiser: the networks, and log Z with its own rate."""
        networks = {"params": list(self.sampler.parameters()), "lr": learning_rate}
        return [networks, *self.objective.parameter_groups(learning_rate)]

    def redraw(self, rng: np.random.Generator) -> None:
        """Do nothing: orders come with the paths."""

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw paths for the next updates, and score them at an inverse temperature."""
        columns, ranks = self.sampler.sample(size, policy, generator)
        self.beta = beta
        self._prepare(columns, ranks)

    def _prepare(self, columns: Columns, ranks: Columns) -> None:
        scorer = self.target.tempered(self.beta).now(torch.float64)
        self.batch = self.objective.prepare(scorer, columns, ranks)

    def loss(self) -> Float[Tensor, ""]:
        """Mean loss of the paths that were drawn last."""
        if self.batch is None:
            raise TrainingError("no paths have been drawn to make an update at: call draw first")
        return self.objective.losses(self.sampler, self.batch).mean()

    @torch.no_grad()
    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z from whole paths, at the target's own temperature."""
        columns, ranks = self.sampler.sample(num_samples, generator=generator)
        paths = self.sampler.log_paths(columns, ranks)
        log_ratio = (paths.log_backward.double() - paths.log_forward.double()).sum(0)
        return estimate_from_log_weights(self.scorer.log_score(columns.T) + log_ratio)

    def state(self) -> dict[str, Any]:
        """Paths in use, for a checkpoint."""
        if self.batch is None:
            return {}
        return {"columns": self.batch.columns, "ranks": self.batch.ranks, "beta": self.beta}

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up paths from a checkpoint."""
        self.batch = None
        if state:
            self.beta = state["beta"]
            self._prepare(state["columns"], state["ranks"])
