"""E-steps by an objective at draws of q: Delta, and the balance objectives of GFlowNets.

q draws latents along its orders, and the objective is lowered at some of the draws. A few of these
come from flattened conditionals, as objectives may look anywhere; p is improved at all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.learning.em.steps.base import Batch, Draws, EStep, Parts
from deltaai.objectives import BalanceName, BalanceObjective, DeltaObjective, Objective
from deltaai.sampling import ON_POLICY, Policy, Source


class DrawnStep(EStep[Draws]):
    """Draws of q along its orders."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.source = Source(parts.posterior, parts.orders)
        self.redraw(0)

    def redraw(self, seed: int) -> None:
        """Take new orders, if there are many."""
        self.source.redraw(np.random.default_rng(seed))

    def draw(self, batch: Batch, generator: torch.Generator) -> Draws:
        """Draw latents for rows from q; p does not learn from those that are flattened."""
        whole = len(batch.rows) - len(batch.rows) % len(self.source.dags)
        rows, config = batch.rows[:whole], self.parts.config
        policy = self.policy(max(min(config.posterior_batch, whole) // len(self.source.dags), 1))
        paths = self.source.draw(
            self.parts.posterior,
            len(rows),
            policy,
            generator,
            context=rows,
            candidates=config.candidates,
        )
        return Draws.even(paths, policy.num_tempered or 0)

    def policy(self, each: int) -> Policy:
        """How q draws, if it learns from so many draws of each order: as it is."""
        return ON_POLICY

    def model_loss(self, draws: Draws) -> Float[Tensor, ""]:
        """Less the log p(h, x) of what was drawn, by weight."""
        rows = draws.paths.context
        assert rows is not None
        log_joint = self.parts.model.log_joint(draws.paths.columns, rows)
        return -(draws.weights * log_joint).sum()


class ObjectiveStep(DrawnStep):
    """An objective of q at some of its draws.

    Parameters
    ----------
    objective : as those that ``fit`` trains by.
    """

    def __init__(self, parts: Parts, objective: Objective[Any]) -> None:
        super().__init__(parts)
        self.objective = objective

    def policy(self, each: int) -> Policy:
        """A share of the draws that q learns from is flattened: an objective may look anywhere."""
        return self.parts.policy(each)

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Mean of the objective."""
        each = max(self.parts.config.posterior_batch // len(draws.paths.dags), 1)
        paths, posterior = draws.paths.first(each), self.parts.posterior
        batch = self.objective.prepare(posterior, paths, generator)
        return self.objective.losses(posterior, batch).mean()

    def begin(self, batch: Batch, generator: torch.Generator) -> None:
        """Start log Z, if it is learned, at the mean log weight."""
        if isinstance(self.objective, BalanceObjective):
            paths, posterior = self.draw(batch, generator).paths, self.parts.posterior
            with torch.no_grad():
                context = posterior.context_of(paths.context)
                log_q = posterior.log_prob(paths.columns, paths.known, context=context)
                log_p = posterior.target.log_scores(paths.columns, paths.context)
                self.objective.log_partition.copy_((log_p - log_q).mean())

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """What the objective learns besides q."""
        return self.objective.parameter_groups(learning_rate)

    def state(self) -> dict[str, Any]:
        """What the objective has learned."""
        return {"objective": dict(self.objective.state_dict())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put that back."""
        self.objective.load_state_dict(state["objective"])


def delta_step(parts: Parts) -> ObjectiveStep:
    """The local objective (key ``delta-objective``) at all latents of some draws."""
    return ObjectiveStep(parts, DeltaObjective())


def balance_step(name: BalanceName) -> Callable[[Parts], ObjectiveStep]:
    """A balance objective; log Z of a row and the flow are networks over the row."""

    def build(parts: Parts) -> ObjectiveStep:
        num_given = parts.model.structure.num_observed
        objective = BalanceObjective(
            name, parts.posterior, num_given=num_given, generator=parts.generator
        )
        return ObjectiveStep(parts, objective)

    return build
