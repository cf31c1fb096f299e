"""What all balance objectives share: rewards along paths, a learned log Z, and flows from both.

    log F(nothing) = log Z,    log F(x) = log R(x),    log F in between = network (+ log R~)

with log R~, the reward of a partial sample, added by the forward-looking ones (equation key
``fl``); these learn log Z less log R~ of nothing. Where the network and the probabilities of the
steps come from differs between samplers: see :mod:`deltaai.objectives.gflownet` for orders that
are given and :mod:`deltaai.objectives.any_order_balance` for a policy that picks them.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.errors import ConfigError, did_you_mean
from deltaai.models import Columns, PartialEnergy, Target
from deltaai.objectives.balance import (
    detailed_balance,
    sub_trajectory_balance,
    trajectory_balance,
)

BalanceName = Literal["tb", "db", "subtb", "fl-db", "fl-subtb"]


class LearnedFlow(nn.Module):
    """Log Z as a parameter, rewards, and one of the balances.

    Parameters
    ----------
    name : which balance; ``fl-`` for forward-looking.
    decay : λ of sub-trajectory balance.
    partial_energy : how the forward-looking ones score partial samples.
    partition_rate : learning rate of log Z.
    log_partition : what log Z (less log R~ of nothing, if forward-looking) is learned from.
    """

    def __init__(
        self,
        name: BalanceName,
        *,
        decay: float | int = 0.9,
        partial_energy: PartialEnergy = "zero-filled",
        partition_rate: float | int = 0.1,
        log_partition: float | int = 0.0,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        _check_choice("objective", name, get_args(BalanceName))
        _check_choice("partial_energy", partial_energy, get_args(PartialEnergy))
        for setting, value in (("decay", decay), ("partition_rate", partition_rate)):
            if not 0 < value < math.inf:
                raise ConfigError(f"{setting} is {value}: it must be a positive number")
        self.name: BalanceName = name
        self.decay = decay
        self.partial_energy: PartialEnergy = partial_energy
        self.partition_rate = partition_rate
        self.log_partition = nn.Parameter(
            torch.tensor(float(log_partition), dtype=torch.float32, device=device)
        )

    @property
    def needs_flow(self) -> bool:
        """Whether flows of partial samples enter; trajectory balance sees the ends only."""
        return self.name != "tb"

    def partition_group(self) -> dict[str, Any]:
        """Group of log Z for an optimiser, with a rate of its own."""
        return {"params": [self.log_partition], "lr": self.partition_rate}

    @torch.no_grad()
    def log_rewards(
        self,
        target: Target,
        columns: Columns,
        ranks: Columns,
        given: Float[Tensor, "batch *feature"] | None = None,
    ) -> Float[Tensor, "step batch"]:
        """Log R~ after each step; zero but for the last unless forward-looking.

        Parameters
        ----------
        target : p.
        columns, ranks : states, and the places of their variables in their orders.
        given : what else is given with each column.
        """
        if self.name.startswith("fl-"):
            return target.partial_log_scores(columns, ranks, self.partial_energy, given)
        rewards = torch.zeros(
            len(columns) + 1, columns.shape[1], dtype=torch.float64, device=columns.device
        )
        rewards[-1] = target.log_scores(columns, given)
        return rewards

    def log_flows(
        self,
        log_rewards: Float[Tensor, "step batch"],
        inner: Float[Tensor, "inner_step batch"] | None = None,
        start: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "step batch"]:
        """Log F at every step: log Z first, the reward last, the network's in between.

        Parameters
        ----------
        start : what is added to log Z, where it depends on evidence.
        """
        num_steps, batch = log_rewards.shape
        if inner is None:  # not asked for
            inner = log_rewards.new_zeros(num_steps - 2, batch)
        first = self.log_partition.to(log_rewards.dtype).expand(1, batch)
        last = torch.zeros_like(first)
        if start is not None:
            first = first + start
            # All steps at which nothing but the evidence is set have one flow.
            inner = inner + self.log_partition
        return torch.cat((first, inner, last)) + log_rewards

    def balance(self, potentials: Float[Tensor, "step batch"]) -> Float[Tensor, "batch"]:
        """Apply the balance to the potentials."""
        if self.name == "tb":
            return trajectory_balance(potentials)
        if self.name.endswith("subtb"):
            return sub_trajectory_balance(potentials, self.decay)
        return detailed_balance(potentials)


def _check_choice(setting: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"no {setting} {value!r}{did_you_mean(value, choices)}; there are {', '.join(choices)}"
        )
