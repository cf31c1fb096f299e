"""The task that settings name."""

from __future__ import annotations

from typing import Any

from jaxtyping import Int
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError
from deltaai.objectives import (
    BalanceObjective,
    DeltaObjective,
    LogVarianceObjective,
    Objective,
    SampledDeltaObjective,
    StochasticDeltaObjective,
)
from deltaai.randomness import generator_of
from deltaai.sampling import Orders
from deltaai.training.config import TrainingConfig
from deltaai.training.full_samples import FullSamples
from deltaai.training.sub_dags import SubDags
from deltaai.training.task import Task


def task_of(
    config: TrainingConfig,
    proposal: Proposal,
    orders: Orders,
    data: Int[Tensor, "row var"] | None = None,
) -> Task:
    """Set up the task for a structured sampler.

    Parameters
    ----------
    config : names the objective and its settings.
    proposal : the q to train.
    orders : one order or many.
    data : states to train at instead of those the policy draws.
    """
    if config.objective == "sub-dags":
        if data is not None:
            raise ConfigError(
                "sub-DAGs are trained at samples of q: give no states, or another objective"
            )
        return SubDags(proposal, orders, config.batch_size)
    return FullSamples(proposal, orders, objective_of(config, proposal, orders), data)


def objective_of(config: TrainingConfig, proposal: Proposal, orders: Orders) -> Objective[Any]:
    """Set up an objective at full samples."""
    is_every = config.alternatives == "all"
    match config.objective:
        case "delta":
            return DeltaObjective(is_every_alternative=is_every)
        case "stochastic":
            return StochasticDeltaObjective(is_every_alternative=is_every)
        case "sampled":
            return SampledDeltaObjective(proposal, orders.graph, config.sampled_variables)
        case "log-variance":
            return LogVarianceObjective(proposal)
        case "tb" | "db" | "subtb" | "fl-db" | "fl-subtb":
            return BalanceObjective(
                config.objective,
                proposal,
                decay=config.decay,
                partial_energy=config.partial_energy,
                partition_rate=config.partition_rate,
                log_partition=config.log_partition,
                generator=generator_of(config.seed),
            )
    raise ConfigError(f"{config.objective!r} is no objective at full samples")
