"""GFlowNet objectives of the structured sampler (equation keys ``tb``, ``db``, ``subtb``, ``fl``).

q fills in the variables in the order of a DAG, so a sample has one path and no backward policy:

    A_i = log F(x_1..x_i) - Σ_{k<=i} log q(x_k | x_Pa(k)),     F(x) = R(x),     F(nothing) = Z

and the objectives of :mod:`deltaai.objectives.balance` follow. log Z is a number that is learned,
F in between a network; the forward-looking ones learn only its ratio to the partial reward. Given
evidence a path starts with that set, and F(evidence) = Z(evidence) is the network's, too. All of
them need full samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Known, Observed, Proposal, log_conditionals_of
from deltaai.models import Columns
from deltaai.objectives.balance import path_potentials
from deltaai.objectives.base import Objective
from deltaai.objectives.flow import FlowNetwork
from deltaai.objectives.learned_flow import BalanceName, LearnedFlow
from deltaai.sampling import Paths


@dataclass(frozen=True, eq=False)
class FlowBatch:
    """Full states and what follows from them whatever the networks.

    Parameters
    ----------
    columns, orders, ranks : the states, their orders, and these the other way round.
    known : which inputs each variable may see.
    features : the states, encoded.
    known_logits : what q knows before training.
    log_rewards : log R~ at each step; only the last is not zero unless the objective is
        forward-looking.
    observed : which variables are evidence; they come first in their orders.
    context : what else is given with each column.
    """

    columns: Columns
    orders: Columns
    ranks: Columns
    known: Known
    features: Float[Tensor, "feature_row batch"]
    known_logits: Float[Tensor, "row batch"]
    log_rewards: Float[Tensor, "step batch"]
    observed: Observed | None
    context: Float[Tensor, "batch *feature"] | None = None


class BalanceObjective(LearnedFlow, Objective[FlowBatch]):
    """One of the balance objectives, with what it learns besides q: log Z, and perhaps a flow.

    Parameters
    ----------
    name : which; ``fl-`` for forward-looking.
    proposal : q, whose body the flow may share.
    has_evidence : whether paths start at evidence, whose log Z is then the flow's.
    num_given : numbers that are given with each column; log Z and the flow then depend on them.
    generator : randomness of the flow's initial weights.
    settings : of :class:`~deltaai.objectives.learned_flow.LearnedFlow`.
    """

    def __init__(
        self,
        name: BalanceName,
        proposal: Proposal,
        *,
        has_evidence: bool = False,
        num_given: int = 0,
        generator: torch.Generator | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(name, device=proposal.device, **settings)
        self.flow: nn.Module | None = None
        if self.needs_flow or has_evidence or num_given:
            self.flow = FlowNetwork(proposal.conditionals, num_given=num_given, generator=generator)

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Log Z with a rate of its own, and the flow with that of q."""
        groups = [self.partition_group()]
        if self.flow is not None:
            groups.append({"params": list(self.flow.parameters()), "lr": learning_rate})
        return groups

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> FlowBatch:
        """Encode the states and compute their rewards, partial ones if they are looked at."""
        columns, ranks = paths.columns, paths.ranks()
        log_rewards = self.log_rewards(proposal.target, columns, ranks, paths.context)
        if paths.observed is not None:  # until the evidence is set nothing happens
            log_rewards = log_rewards.gather(0, _num_set(paths.observed, len(log_rewards)))
        return FlowBatch(
            columns,
            paths.orders(),
            ranks,
            paths.known,
            proposal.features(columns),
            proposal.known_logits(columns, paths.known),
            log_rewards,
            paths.observed,
            paths.context,
        )

    def losses(self, proposal: Proposal, batch: FlowBatch) -> Float[Tensor, "batch"]:
        """Loss of each sample."""
        context = proposal.context_of(batch.context)
        logits = proposal.conditionals.logits(batch.features, batch.known, context)
        log_q = log_conditionals_of(proposal.layout, logits + batch.known_logits, batch.columns)
        if batch.observed is not None:
            log_q = log_q * ~batch.observed
        log_flows = self.log_flows(batch.log_rewards, *self._network_flows(batch))
        return self.balance(path_potentials(log_flows, log_q.gather(0, batch.orders)))

    def _network_flows(self, batch: FlowBatch) -> tuple[Tensor | None, Tensor | None]:
        """What the network says in between, and at the evidence if there is some."""
        if self.flow is None:
            return None, None
        num_steps, num_columns = batch.log_rewards.shape
        given = None if batch.context is None else 2 * batch.context - 1
        if batch.observed is None and given is None:
            steps = torch.arange(1, num_steps - 1, device=batch.ranks.device)
            num_set = steps[:, None].expand(-1, num_columns)
            return self.flow(batch.features, batch.ranks, num_set), None
        nothing = torch.zeros_like(batch.columns, dtype=torch.bool)
        num_set = _num_set(nothing if batch.observed is None else batch.observed, num_steps)[:-1]
        if not self.needs_flow:
            return None, self.flow(batch.features, batch.ranks, num_set[:1], given)[0]
        found = self.flow(batch.features, batch.ranks, num_set, given)
        return found[1:], found[0]


def _num_set(observed: Observed, num_steps: int) -> Int[Tensor, "step batch"]:
    """Variables that are set after each step: the evidence from the start."""
    steps = torch.arange(num_steps, device=observed.device)[:, None]
    return torch.maximum(steps, observed.sum(0))
