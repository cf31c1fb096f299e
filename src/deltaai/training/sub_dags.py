"""Training at sub-DAGs: neighbourhoods alone, nothing else is ever instantiated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Proposal
from deltaai.importance import ImportanceEstimate
from deltaai.objectives import (
    SubDagPlanner,
    prepare_sub_dags,
    propose_centres,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.sampling import Orders, Policy, Schedule, estimate_partition
from deltaai.training.task import Task


class SubDags(Task):
    """Random orientations of closed neighbourhoods, and the residual at their centres.

    Parameters
    ----------
    proposal : the q to train, whose inputs are the neighbours in a chordal graph.
    orders : the orders it is for, of the kind ``"many"``.
    size : samples in an update: as many sub-DAGs of each variable as come to that, one sample
        each; with fewer than there are variables, these take turns.
    """

    def __init__(self, proposal: Proposal, orders: Orders, size: int) -> None:
        self.proposal, self.orders, self.size = proposal, orders, size
        self.trained = nn.ModuleDict({"q": proposal.trained})
        self.planner = SubDagPlanner(proposal, orders.graph)
        self.schedule = Schedule.build(proposal, [orders.fixed], masks=True)
        self.free = proposal.layout.is_free.nonzero().squeeze(1).tolist()

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q."""
        return self.proposal.parameter_groups(learning_rate)

    def target_parameters(self) -> Iterator[Tensor]:
        """Parameters of the target, if it learns."""
        yield from self.proposal.target.model.parameters()

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw new sub-DAGs."""
        self._plan_from = rng.bit_generator.state
        copies, rest = divmod(self.size, max(len(self.free), 1))
        others = rng.choice(self.free, size=rest, replace=False).tolist() if rest else []
        self.plan = self.planner.draw([*self.free * copies, *others], rng)
        self.batch = None

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw one sample of every sub-DAG."""
        proposal = self.proposal.tempered(beta)
        states = sample_sub_dags(proposal, self.plan, 1, policy=policy, generator=generator)
        self._set_batch(states, propose_centres(proposal, self.plan, states, generator), beta)

    def _set_batch(
        self,
        states: Int[Tensor, "cell sample"],
        alternatives: Int[Tensor, "u sample"],
        beta: float | int,
    ) -> None:
        proposal = self.proposal.tempered(beta)
        self._drawn: dict[str, Any] = {"states": states, "alternatives": alternatives, "beta": beta}
        self._moment = proposal.target.moment
        self.batch = prepare_sub_dags(proposal, self.plan, states, alternatives)

    def loss(self) -> Float[Tensor, ""]:
        """Mean squared residual; what was prepared from a target that moved is dropped."""
        if self.proposal.target.moment != self._moment:
            self._set_batch(**self._drawn)
        return sub_dag_residuals(self.proposal, self.plan, self.batch).square().mean()

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z in the default order."""
        return estimate_partition(self.proposal, self.schedule, num_samples, generator)

    def state(self) -> dict[str, Any]:
        """What the sub-DAGs were drawn from, and their samples."""
        return {"plan_from": self._plan_from, **self._drawn}

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Draw the same sub-DAGs again and take up their samples."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["plan_from"]
        self.redraw(rng)
        device = self.proposal.device
        drawn = state["states"].to(device), state["alternatives"].to(device)
        self._set_batch(*drawn, state["beta"])
