"""The objectives at full samples by name.

A new objective is one small file (see :mod:`deltaai.objectives.base`) and one line here; a user
adds one with :func:`register_objective`. A builder is given q, and the settings of the run that
objectives go by. ``"sub-dags"`` is not among them: it draws no full samples, and so is a task of
its own, in :mod:`deltaai.training`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError
from deltaai.models import PartialEnergy
from deltaai.objectives.base import Objective
from deltaai.objectives.delta import DeltaObjective
from deltaai.objectives.gflownet import BalanceObjective
from deltaai.objectives.learned_flow import BalanceName
from deltaai.objectives.log_variance import LogVarianceObjective
from deltaai.objectives.sampled import SampledDeltaObjective
from deltaai.objectives.score import ScoreObjective
from deltaai.objectives.stochastic import StochasticDeltaObjective
from deltaai.randomness import generator_of
from deltaai.registry import add_entry, checked_callable, entry_of

SUB_DAGS = "sub-dags"


@dataclass(frozen=True)
class ObjectiveSettings:
    """What the settings of a run say about its objective.

    Parameters
    ----------
    is_every_alternative : compare with every other value of a variable, not with one at random.
    sampled_variables : how many variables of an order are taken at a time.
    decay : λ of sub-trajectory balance.
    partial_energy : how partial samples are scored.
    partition_rate, log_partition : learning rate of log Z, and what it is learned from.
    has_evidence : whether some variables are observed.
    seed : of what the objective draws when it is built.
    step : how far real variables are moved; ``None`` for other values drawn anew.
    """

    is_every_alternative: bool = False
    sampled_variables: int = 8
    decay: float | int = 0.9
    partial_energy: PartialEnergy = "zero-filled"
    partition_rate: float | int = 0.1
    log_partition: float | int = 0.0
    has_evidence: bool = False
    seed: int = 0
    step: float | int | None = None


ObjectiveBuilder = Callable[[Proposal, ObjectiveSettings], Objective[Any]]


def _delta(proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return DeltaObjective(is_every_alternative=settings.is_every_alternative, step=settings.step)


def _sampled(proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return SampledDeltaObjective(proposal, settings.sampled_variables)


def _stochastic(proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return StochasticDeltaObjective(is_every_alternative=settings.is_every_alternative)


def _score(proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return ScoreObjective(proposal)


def _log_variance(proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return LogVarianceObjective()


def _balance(name: BalanceName, proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    return BalanceObjective(
        name,
        proposal,
        has_evidence=settings.has_evidence,
        decay=settings.decay,
        partial_energy=settings.partial_energy,
        partition_rate=settings.partition_rate,
        log_partition=settings.log_partition,
        generator=generator_of(settings.seed),
    )


OBJECTIVES: dict[str, ObjectiveBuilder] = {
    "delta": _delta,
    "sampled": _sampled,
    "stochastic": _stochastic,
    "log-variance": _log_variance,
    "score": _score,
    "tb": partial(_balance, "tb"),
    "db": partial(_balance, "db"),
    "subtb": partial(_balance, "subtb"),
    "fl-db": partial(_balance, "fl-db"),
    "fl-subtb": partial(_balance, "fl-subtb"),
}


def register_objective(name: str, build: ObjectiveBuilder, *, replace: bool = False) -> None:
    """Make an objective a choice of ``fit(objective=name)``.

    Parameters
    ----------
    name : what settings and files call it.
    build : gives the objective for q and the settings of a run.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of an objective", build, "(proposal, settings)")
    if name == SUB_DAGS:
        raise ConfigError(f"{SUB_DAGS!r} is a task of its own: choose another name")
    add_entry(OBJECTIVES, "objective", name, build, replace=replace)


def build_objective(name: str, proposal: Proposal, settings: ObjectiveSettings) -> Objective[Any]:
    """Set up an objective at full samples."""
    return entry_of(OBJECTIVES, "objective at full samples", name)(proposal, settings)
