"""GFlowNet objectives of the structured sampler (equation keys ``tb``, ``db``, ``subtb``, ``fl``).

q fills in the variables in the order of a DAG, so a sample has one path and no backward policy:

    A_i = log F(x_1..x_i) - Σ_{k<=i} log q(x_k | x_Pa(k)),     F(x) = R(x),     F(nothing) = Z

and the objectives of :mod:`deltaai.objectives.balance` follow. log Z is a number that is learned,
F in between a network; the forward-looking ones learn only its ratio to the partial reward. All of
them need full samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Known, Proposal, log_conditionals_of
from deltaai.objectives.balance import path_potentials
from deltaai.objectives.base import Objective, Paths
from deltaai.objectives.flow import FlowNetwork
from deltaai.objectives.learned_flow import BalanceName, LearnedFlow


@dataclass(frozen=True, eq=False)
class FlowBatch:
    """Full states and what follows from them whatever the networks.

    Parameters
    ----------
    columns, orders, ranks : the states, their orders, and these the other way round.
    known : which inputs each variable may see.
    features : the states, encoded.
    factor_logits : log-factors inside the known, as logits.
    log_rewards : log R~ at each step; only the last is not zero unless the objective is
        forward-looking.
    """

    columns: Int[Tensor, "var batch"]
    orders: Int[Tensor, "var batch"]
    ranks: Int[Tensor, "var batch"]
    known: Known
    features: Float[Tensor, "feature_row batch"]
    factor_logits: Float[Tensor, "row batch"]
    log_rewards: Float[Tensor, "step batch"]


class BalanceObjective(LearnedFlow, Objective[FlowBatch]):
    """One of the balance objectives, with what it learns besides q: log Z, and perhaps a flow.

    Parameters
    ----------
    name : which; ``fl-`` for forward-looking.
    proposal : q, whose body the flow may share.
    generator : randomness of the flow's initial weights.
    settings : of :class:`~deltaai.objectives.learned_flow.LearnedFlow`.
    """

    def __init__(
        self,
        name: BalanceName,
        proposal: Proposal,
        *,
        generator: torch.Generator | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(name, **settings)
        self.flow: nn.Module | None = None
        if self.needs_flow:
            self.flow = FlowNetwork(proposal.conditionals, generator=generator)
        self.scorer = proposal.scorer()

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
        return FlowBatch(
            columns,
            paths.orders(),
            ranks,
            paths.known,
            proposal.layout.encoding.encode(columns, proposal.model.dtype),
            proposal.factor_logits(columns, paths.known, paths.beta),
            self.log_rewards(self.scorer, columns, ranks, paths.beta),
        )

    def losses(self, proposal: Proposal, batch: FlowBatch) -> Float[Tensor, "batch"]:
        """Loss of each sample."""
        logits = proposal.conditionals.logits(batch.features, batch.known) + batch.factor_logits
        log_q = log_conditionals_of(proposal.layout, logits, batch.columns).gather(0, batch.orders)
        inner = None if self.flow is None else self.flow(batch.features, batch.ranks)
        return self.balance(path_potentials(self.log_flows(batch.log_rewards, inner), log_q))
