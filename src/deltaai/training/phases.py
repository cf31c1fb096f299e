"""Training as a list of phases: updates with one objective, until a rule says that they are over.

A phase says what is trained at (a :class:`~deltaai.training.task.Task`), for how many updates, at
which rates, with which policy, and at which temperature of the target. It may be left out if there
is nothing to gain, and undone if it made q worse. Settings turn into phases here; the loop runs
them and knows nothing else.

The usual ones are the local updates, and *polishing*: the local objective makes q right between
states that are a few flips apart; on peaked models small errors add up between distant modes.
Polishing takes the variance of the log weights over full samples, half of them flattened, for a
loss that is only taken where q already is would let q forget the modes it visits seldom. It needs
no flips, so its batches are large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltaai.importance import ImportanceEstimate
from deltaai.sampling import ON_POLICY, Policy
from deltaai.training.config import TrainingConfig
from deltaai.training.schedules import (
    inverse_temperature_at,
    learning_rate_at,
    polish_rate_at,
    temperature_at,
)
from deltaai.training.task import Task

_BATCH, _RESAMPLE_EVERY = 256, 2
_FLATTENED = Policy(temperature=2.0, tempered_share=0.5)
WORTH_BELOW = 0.98  # effective sample size; above it there is nothing to polish
# Flattened states of a large model lie far from q and teach it little once it is roughly right.
WORTH_BELOW_IF_LARGE = 0.5
_LARGE = 500  # variables


@dataclass(frozen=True, eq=False)
class Phase:
    """Updates with one objective; steps are counted from the beginning of the phase.

    Parameters
    ----------
    task : what is trained, and at what.
    steps : number of updates.
    batch_size, resample_every : states of an update, and how many updates share them.
    policy_at, beta_at, rate_at : policy, inverse temperature and learning rate at a step.
    settled_at : step from which on the target is the true one, so that q can be judged by it.
    is_worth : says of an estimate of q whether there is anything to gain; ``None`` for always.
    is_undone_if_worse : whether q from before is taken back if it was better.
    """

    task: Task
    steps: int
    batch_size: int
    resample_every: int
    policy_at: Callable[[int], Policy]
    beta_at: Callable[[int], float]
    rate_at: Callable[[int], float]
    settled_at: int = 0
    is_worth: Callable[[ImportanceEstimate], bool] | None = None
    is_undone_if_worse: bool = False


def main_phase(config: TrainingConfig, task: Task) -> Phase:
    """Updates with the objective, the rates and the policy that the settings name."""
    return Phase(
        task=task,
        steps=config.steps,
        batch_size=config.batch_size,
        resample_every=config.resample_every,
        policy_at=lambda step: policy_at(config, step),
        beta_at=lambda step: inverse_temperature_at(config, step),
        rate_at=lambda step: config.learning_rate * learning_rate_at(config, step),
        settled_at=config.anneal_steps,
    )


def polishing_phase(config: TrainingConfig, task: Task, num_variables: int) -> Phase:
    """Updates that lower the variance of the log weights, where they are still uneven."""

    # Looked up when it is asked, as the limits are settings of this module.
    def is_worth(estimate: ImportanceEstimate) -> bool:
        limit = WORTH_BELOW_IF_LARGE if num_variables > _LARGE else WORTH_BELOW
        return estimate.ess_fraction < limit

    return Phase(
        task=task,
        steps=config.polish_steps,
        batch_size=max(config.batch_size, _BATCH),
        resample_every=min(config.resample_every, _RESAMPLE_EVERY),
        policy_at=lambda _: _FLATTENED,
        beta_at=lambda _: 1.0,
        rate_at=lambda step: polish_rate_at(config, step),
        is_worth=is_worth,
        is_undone_if_worse=True,
    )


def policy_at(config: TrainingConfig, step: int) -> Policy:
    """Return the policy that the settings name."""
    match config.policy:
        case "tempered" | "annealed":
            return Policy(temperature=temperature_at(config, step))
        case "tempered-mixture":
            return Policy(temperature=config.temperature, tempered_share=config.exploration)
        case "uniform-mixture":
            return Policy(uniform_share=config.exploration)
        case "uniform":
            return Policy(uniform_share=1.0)
    return ON_POLICY
