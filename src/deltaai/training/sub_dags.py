"""Training at sub-DAGs: neighbourhoods alone, nothing else is ever instantiated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError, Setting
from deltaai.objectives import (
    SubDagPlanner,
    draw_alternatives,
    prepare_sub_dags,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.sampling import ImportanceEstimate, Orders, Policy, Schedule, estimate_partition
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
        if orders.kind != "many":
            raise ConfigError(
                "sub-DAGs are parts of random orders: choose ", Setting("orders", "many")
            )
        self.proposal, self.orders, self.size = proposal, orders, size
        self.trained = nn.ModuleDict({"conditionals": proposal.conditionals})
        self.planner = SubDagPlanner(proposal, orders.graph)
        self.schedule = Schedule.build(proposal, [orders.fixed], masks=True)
        self.scorer = proposal.scorer()
        self.free = (proposal.model.num_states > 1).nonzero().squeeze(1).tolist()

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q."""
        return self.proposal.conditionals.parameter_groups(learning_rate)

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
        states = sample_sub_dags(
            self.proposal, self.plan, 1, policy=policy, beta=beta, generator=generator
        )
        centres = self.plan.centres
        num_states = self.proposal.model.num_states[self.plan.variables[centres]]
        self._set_batch(states, draw_alternatives(states[centres], num_states, generator), beta)

    def _set_batch(
        self,
        states: Int[Tensor, "cell sample"],
        alternatives: Int[Tensor, "u sample"],
        beta: float | int,
    ) -> None:
        self._drawn = {"states": states, "alternatives": alternatives, "beta": beta}
        self.batch = prepare_sub_dags(self.proposal, self.plan, states, alternatives, beta)

    def loss(self) -> Float[Tensor, ""]:
        """Mean squared residual."""
        return sub_dag_residuals(self.proposal, self.plan, self.batch).square().mean()

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z in the default order."""
        return estimate_partition(self.proposal, self.schedule, self.scorer, num_samples, generator)

    def state(self) -> dict[str, Any]:
        """What the sub-DAGs were drawn from, and their samples."""
        return {"plan_from": self._plan_from, **self._drawn}

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Draw the same sub-DAGs again and take up their samples."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["plan_from"]
        self.redraw(rng)
        self._set_batch(state["states"], state["alternatives"], state["beta"])
