"""Training at full samples: any objective of :class:`deltaai.objectives.base.Objective`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Proposal, known_under
from deltaai.graphs import Dag
from deltaai.objectives import Objective, Paths
from deltaai.sampling import (
    ImportanceEstimate,
    Orders,
    Policy,
    Schedule,
    estimate_partition,
    sample_ancestrally,
)
from deltaai.training.task import Task


class FullSamples(Task):
    """Full states of one order or many, and an objective at them.

    Parameters
    ----------
    proposal : the q to train; its conditionals are changed in place.
    orders : one order or many.
    objective : what is minimised.
    data : states to train at instead of those the policy draws, one row each.
    """

    def __init__(
        self,
        proposal: Proposal,
        orders: Orders,
        objective: Objective[Any],
        data: Int[Tensor, "row var"] | None = None,
    ) -> None:
        self.proposal, self.orders, self.objective = proposal, orders, objective
        self.data = data
        self.trained = nn.ModuleDict(
            {"conditionals": proposal.conditionals, "objective": objective}
        )
        self.scorer = proposal.scorer()
        self.dags: list[Dag] = []
        self.paths: Paths | None = None

    def with_objective(self, objective: Objective[Any]) -> FullSamples:
        """Go on with the same q and orders and another objective, at states that q draws."""
        other = FullSamples(self.proposal, self.orders, objective)
        if self.dags:
            other._set_orders(self.dags)
        return other

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q, and of what the objective learns besides."""
        groups = self.proposal.conditionals.parameter_groups(learning_rate)
        return groups + self.objective.parameter_groups(learning_rate)

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw new orders; if there is but one, nothing changes."""
        if self.orders.kind == "one" and self.dags:
            return
        self._set_orders(self.orders.draw(rng))

    def _set_orders(self, dags: list[Dag]) -> None:
        is_several = self.orders.kind == "many"
        self.dags = dags
        self.schedule = Schedule.build(self.proposal, dags, masks=is_several)
        self.known_by_dag = known_under(self.proposal.layout, dags) if is_several else None
        self.batch = None  # its states belong to the orders before

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw states from the policy, or from the data, equally many for each order."""
        each = max(size // len(self.dags), 1)
        if self.data is not None:
            shape = (each * len(self.dags),)
            rows = torch.randint(len(self.data), shape, generator=generator, device="cpu")
            states = self.data[rows].T.contiguous()
        else:
            columns, _ = sample_ancestrally(
                self.proposal, self.schedule, each, policy=policy, beta=beta, generator=generator
            )
            states = columns.flatten(1)
        self.paths = self._paths(states, beta)
        self.batch = self.objective.prepare(self.proposal, self.paths, generator)

    def _paths(self, states: Int[Tensor, "var batch"], beta: float | int) -> Paths:
        known = None
        if self.known_by_dag is not None:
            each = states.shape[1] // len(self.dags)
            known = self.known_by_dag.repeat_interleave(each, dim=1)
        return Paths(states, tuple(self.dags), known, beta)

    def loss(self) -> Float[Tensor, ""]:
        """Mean loss of the samples."""
        return self.objective.losses(self.proposal, self.batch).mean()

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z over the orders in use."""
        return estimate_partition(self.proposal, self.schedule, self.scorer, num_samples, generator)

    def state(self) -> dict[str, Any]:
        """Orders, states, and what the objective drew."""
        assert self.paths is not None
        return {
            "orders": torch.tensor(
                [dag.order for dag in self.dags], dtype=torch.long, device="cpu"
            ),
            "states": self.paths.columns,
            "beta": self.paths.beta,
            "drawn": self.objective.drawn(self.batch),
        }

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up orders and states from a checkpoint."""
        graph = self.orders.graph
        self._set_orders([Dag(graph, tuple(order)) for order in state["orders"].tolist()])
        self.paths = self._paths(state["states"], state["beta"])
        self.batch = self.objective.prepare_again(
            self.proposal, self.paths, state["drawn"], generator
        )
