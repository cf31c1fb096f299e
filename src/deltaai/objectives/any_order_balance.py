"""GFlowNet objectives of the any-order sampler (equation keys ``tb``, ``db``, ``subtb``, ``fl``).

The policy chooses the order too, so a state is reached along many paths and the backward policy
says how its flow is shared among them. Along one path s_0, ..., s_n = x

    A_i = log F(s_i) - Σ_{k<=i} log P_F(s_k | s_{k-1}) + Σ_{k<=i} log P_B(s_{k-1} | s_k)

with F(s_0) = Z, a number that is learned, F(x) = R(x), and the network's flow in between (times
the partial reward, if forward-looking). The objectives of :mod:`deltaai.objectives.balance` follow.
Trajectory balance needs no flow in between.

Nothing here draws paths; the networks are in :mod:`deltaai.sampling.any_order_policy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.errors import StateError
from deltaai.models import Columns, FactorGraph, Target
from deltaai.objectives.balance import path_potentials
from deltaai.objectives.learned_flow import LearnedFlow
from deltaai.sampling import AnyOrderPolicy


@dataclass(frozen=True, eq=False)
class AnyOrderBatch:
    """Complete paths and their rewards.

    Parameters
    ----------
    columns : the states that they end at.
    ranks : place of each variable in its state's order.
    log_rewards : log R~ after each step, in double precision; only the last is not zero unless
        the objective is forward-looking.
    """

    columns: Columns
    ranks: Columns
    log_rewards: Float[Tensor, "step batch"]


class AnyOrderObjective(LearnedFlow):
    """One of the balance objectives for an any-order policy, with the log Z that it learns."""

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Group of log Z; the networks are the policy's."""
        return [self.partition_group()]

    def prepare(
        self,
        scorer: FactorGraph,
        columns: Columns,
        ranks: Columns,
    ) -> AnyOrderBatch:
        """Compute the rewards of complete paths; the target comes in double precision."""
        if scorer.dtype != torch.float64:
            raise StateError(
                f"the target is in {scorer.dtype}: pass model.to(dtype=torch.float64), since sums "
                "over many factors need it"
            )
        return AnyOrderBatch(columns, ranks, self.log_rewards(Target(scorer), columns, ranks))

    def losses(self, policy: AnyOrderPolicy, batch: AnyOrderBatch) -> Float[Tensor, "batch"]:
        """Loss of each path."""
        paths = policy.log_paths(batch.columns, batch.ranks, flow=self.needs_flow)
        inner = None if paths.log_flow is None else paths.log_flow[1:-1]
        log_flows = self.log_flows(batch.log_rewards, inner)
        return self.balance(path_potentials(log_flows, paths.log_forward, paths.log_backward))
