"""The phases that settings name.

What cannot be combined is listed here, each with the reason why it makes no sense; everything else
trains with everything else.
"""

from __future__ import annotations

from typing import Any

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError, Setting
from deltaai.objectives import (
    SUB_DAGS,
    LogVarianceObjective,
    Objective,
    ObjectiveSettings,
    build_objective,
)
from deltaai.sampling import Source
from deltaai.training.config import TrainingConfig
from deltaai.training.full_samples import FullSamples
from deltaai.training.phases import Phase, main_phase, polishing_phase
from deltaai.training.sub_dags import SubDags
from deltaai.training.task import Task


def refuse_senseless(config: TrainingConfig, source: Source) -> None:
    """Refuse what has no meaning, for the reason that it has none."""
    has_evidence, is_elsewhere = source.evidence is not None, source.values is not None
    if config.objective == SUB_DAGS:
        if source.orders.kind != "many":
            raise ConfigError(
                "sub-DAGs are parts of random orders: choose ", Setting("orders", "many")
            )
        if has_evidence or is_elsewhere:
            raise ConfigError(
                "sub-DAGs are drawn alone, without the full samples that evidence and data are: "
                "choose ",
                Setting("objective", "sampled"),
                ", or give neither",
            )
    if config.polish_steps > 0:
        _refuse_alone("the variance of log weights", LogVarianceObjective(), source)


def _refuse_alone(name: str, objective: Objective[Any], source: Source) -> None:
    """Refuse samples that share their evidence with no other, where others are needed."""
    is_alone = source.evidence is not None and source.values is not None
    if is_alone and objective.each_evidence > 1:
        raise ConfigError(
            f"{name} compares samples that share their evidence, and a row of data is alone with "
            "its own: choose another ",
            Setting("objective"),
            ", and ",
            Setting("polish_steps", 0),
        )


def phases_of(config: TrainingConfig, source: Source) -> list[Phase]:
    """Set up all phases for a structured sampler."""
    refuse_senseless(config, source)
    phases = [main_phase(config, task_of(config, source))]
    if config.polish_steps:
        task = FullSamples(_of_q(source), LogVarianceObjective())
        phases.append(polishing_phase(config, task, source.proposal.layout.num_variables))
    return phases


def task_of(config: TrainingConfig, source: Source) -> Task:
    """Set up what the settings' objective is trained at."""
    if config.objective == SUB_DAGS:
        return SubDags(source.proposal, source.orders, config.batch_size)
    has_evidence = source.evidence is not None
    objective = objective_of(config, source.proposal, has_evidence=has_evidence)
    is_variance = isinstance(objective, LogVarianceObjective)
    named = "the variance of log weights" if is_variance else f"objective {config.objective!r}"
    _refuse_alone(named, objective, source)
    return FullSamples(source, objective)


def objective_of(
    config: TrainingConfig, proposal: Proposal, *, has_evidence: bool = False
) -> Objective[Any]:
    """Set up an objective at full samples."""
    settings = ObjectiveSettings(
        is_every_alternative=config.alternatives == "all",
        sampled_variables=config.sampled_variables,
        decay=config.decay,
        partial_energy=config.partial_energy,
        partition_rate=config.partition_rate,
        log_partition=config.log_partition,
        has_evidence=has_evidence,
        seed=config.seed,
        step=config.step_size,
    )
    return build_objective(config.objective, proposal, settings)


def _of_q(source: Source) -> Source:
    """The same orders and evidence with values of q itself: weights are those of its samples."""
    return (
        source if source.values is None else Source(source.proposal, source.orders, source.evidence)
    )
