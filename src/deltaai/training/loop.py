"""The training loop, read from top to bottom.

Phases follow each other. In each update: (now and then) orders are drawn, (now and then) states
are drawn from the policy, the phase's task gives its loss at them, and Adam takes a step.
Everything random comes from two generators whose states are in the checkpoint, so a run that was
killed and resumed is the run that was not.

What is trained, at what, and when a phase is worth it is said by
:class:`~deltaai.training.phases.Phase`; files are in :mod:`deltaai.training.run_files`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deltaai.budget import Budget
from deltaai.errors import Setting, TimeLimitError, TrainingError
from deltaai.importance import ImportanceEstimate
from deltaai.optimizers import Adam
from deltaai.randomness import generator_of
from deltaai.training.config import TrainingConfig
from deltaai.training.kept import Kept
from deltaai.training.metrics_log import MetricsLog, Row
from deltaai.training.phases import Phase
from deltaai.training.run_files import restore_run, run_state, save_run, take_up_run
from deltaai.watch import seconds_left

_ESTIMATE_UPDATES, _FORGETTING = 2, 0.9
# The way back takes so many times as long as the loss, and nothing can stop it; and seconds of work
# that the first update has in any case.
_BACKWARD, _LEAST_WORK = 2.0, 1.0


@dataclass
class TrainingProgress:
    """Where a run stands, for those who watch it."""

    step: int
    steps: int
    loss: float
    seconds: float
    estimate: ImportanceEstimate | None = None


@dataclass(eq=False)
class Trainer:
    """One run: phases, settings, and the state between updates.

    Parameters
    ----------
    phases : what to do, one after the other.
    config : the settings.
    identity : what a checkpoint must agree on, such as the model's hash.
    """

    phases: Sequence[Phase]
    config: TrainingConfig
    identity: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generator = generator_of(self.config.seed)
        self.rng = np.random.default_rng(self.config.seed)
        groups = _parameter_groups(self.phases, self.config.learning_rate)
        self.parameters = [value for group in groups for value in group["params"]]
        self.rate_scales = [group["lr"] / self.config.learning_rate for group in groups]
        self.optimizer = Adam(groups, betas=(0.9, 0.99))
        self.number = self.phase_step = 0  # of the phase, and in it
        self.step = 0  # of all phases
        self.seconds = 0.0  # spent so far, setting up included
        # Most seconds that an update, with what is drawn for it, took lately, and an estimate:
        # another of each must fit before a limit of time.
        self.longest_update = self.longest_estimate = 0.0
        self.kept: Kept | None = None  # q as it was before this phase
        self.history: list[Row] = []  # what was measured, from the first step on
        self.last_step = sum(phase.steps for phase in self.phases)

    @property
    def phase(self) -> Phase:
        """The phase that the run is in."""
        return self.phases[min(self.number, len(self.phases) - 1)]

    def run(
        self,
        *,
        checkpoint: Path | None = None,
        metrics: MetricsLog | None = None,
        watch: Callable[[TrainingProgress], None] | None = None,
    ) -> ImportanceEstimate | None:
        """Train until the steps, the time or a target is reached; return the last estimate."""
        config, started = self.config, time.perf_counter() - self.seconds
        estimate = self._first_estimate(metrics)
        if self.step == 0 and self._is_reached(estimate):
            if checkpoint is not None:
                self.save(checkpoint)
            return estimate
        while self.number < len(self.phases):
            phase, begun = self.phase, time.perf_counter()
            if self.phase_step == phase.steps:
                estimate = self._end(phase, estimate)
                self.number, self.phase_step, self.kept = self.number + 1, 0, None
                continue
            with self._watched(started):
                self._redraw(phase)
            if self.phase_step == 0 and not self._begin(phase):
                break
            with self._watched(started):
                loss = self._drawn_update(phase, checkpoint)
            self.seconds = time.perf_counter() - started
            took = time.perf_counter() - begun
            self.longest_update = max(took, _FORGETTING * self.longest_update)
            progress = TrainingProgress(self.step, self.last_step, loss, self.seconds)
            is_last = self.step == self.last_step or self._is_late()
            is_due = config.evaluate_every and self.step % config.evaluate_every == 0
            if is_last or is_due or self.phase_step == phase.steps:
                progress.estimate = estimate = self._estimate()
                self.history.append(_metrics_row(progress))
                if metrics is not None:
                    metrics.append(self.history[-1])
            if watch is not None:
                watch(progress)
            is_done = is_last or (progress.estimate is not None and self._is_reached(estimate))
            if checkpoint is not None and (
                is_done or (config.checkpoint_every and self.step % config.checkpoint_every == 0)
            ):
                self.save(checkpoint)
            if is_done:
                return self._end(phase, estimate)
        return estimate

    def advance(self, num_updates: int) -> None:
        """Make so many updates of the present phase and nothing else, past its end if need be.

        For a learner who moves the target in between, and who measures and saves by itself.
        """
        for _ in range(num_updates):
            self._redraw(self.phase)
            self._drawn_update(self.phase, None)

    def state(self) -> dict[str, Any]:
        """All that the rest of the run depends on, nested."""
        return run_state(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        restore_run(self, state)

    def save(self, path: Path) -> None:
        """Write all that the rest of the run depends on."""
        save_run(self, path)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same model and settings."""
        take_up_run(self, path)

    def _first_estimate(self, metrics: MetricsLog | None) -> ImportanceEstimate | None:
        """Judge q before the first update, where it may be right already."""
        if self.step or not self.config.evaluate_first:
            return None
        self._redraw(self.phase)
        progress = TrainingProgress(0, self.last_step, math.nan, self.seconds, self._estimate())
        row = _metrics_row(progress)
        del row["loss"]
        self.history.append(row)
        if metrics is not None:
            metrics.append(row)
        return progress.estimate

    def _watched(self, started: float) -> AbstractContextManager[None]:
        """A watch on the first update; how long the others take is known before."""
        limit = self.config.time_limit
        if limit is None or self.longest_update:
            return nullcontext()
        budget = Budget(sys.maxsize, limit, started + limit)
        return budget.watched("the first update of training", _LEAST_WORK)

    def _begin(self, phase: Phase) -> bool:
        """Keep q as it is, if the phase may spoil it; say whether there is anything to gain."""
        if phase.is_worth is None and not phase.is_undone_if_worse:
            return True
        estimate = self._estimate()
        self.kept = Kept.of(phase.task.trained, estimate) if phase.is_undone_if_worse else None
        return phase.is_worth is None or phase.is_worth(estimate)

    def _end(self, phase: Phase, estimate: ImportanceEstimate | None) -> ImportanceEstimate | None:
        """Go back to the q from before the phase if that was better."""
        if self.kept is None or estimate is None or self.kept.is_surpassed_by(estimate):
            return estimate
        phase.task.trained.load_state_dict(self.kept.weights)
        return self._estimate()

    def _redraw(self, phase: Phase) -> None:
        """Draw new orders, if it is time to."""
        if self.step % self.config.redraw_orders_every == 0 or self.phase_step == 0:
            phase.task.redraw(self.rng)

    def _drawn_update(self, phase: Phase, checkpoint: Path | None) -> float:
        """Draw states, if it is time to, and make an update at them."""
        if self.phase_step % phase.resample_every == 0 or not phase.task.is_drawn:
            policy, beta = phase.policy_at(self.phase_step), phase.beta_at(self.phase_step)
            phase.task.draw(phase.batch_size, policy, beta, self.generator)
        loss = self._update(phase, checkpoint)
        self.step, self.phase_step = self.step + 1, self.phase_step + 1
        return loss

    def _update(self, phase: Phase, checkpoint: Path | None) -> float:
        rate = phase.rate_at(self.phase_step)
        for group, scale in zip(self.optimizer.param_groups, self.rate_scales, strict=True):
            group["lr"] = rate * scale
        begun = time.perf_counter()
        loss = phase.task.loss()
        if _BACKWARD * (time.perf_counter() - begun) > max(seconds_left(), _LEAST_WORK):
            raise TimeLimitError("the first update of training", self.config.time_limit or 0.0)
        value = float(loss.detach())
        if not math.isfinite(value):
            kept = f"; the last good state is in {checkpoint}" if checkpoint else ""
            raise TrainingError(
                f"the loss is {value} at step {self.step}: lower ",
                Setting("learning_rate"),
                ", set ",
                Setting("gradient_clip"),
                " or raise ",
                Setting("anneal_steps"),
                kept,
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.gradient_clip)
        self.optimizer.step()
        return value

    def _estimate(self) -> ImportanceEstimate:
        start = time.perf_counter()
        found = self.phase.task.estimate(self.config.evaluation_samples, self.generator)
        self.longest_estimate = max(self.longest_estimate, time.perf_counter() - start)
        return found

    def _is_late(self) -> bool:
        if self.config.time_limit is None:
            return False
        # Before there was an estimate, one is taken to cost some updates.
        estimate = self.longest_estimate or _ESTIMATE_UPDATES * self.longest_update
        ending = self.longest_update + estimate
        return self.seconds + ending >= self.config.time_limit

    def _is_reached(self, estimate: ImportanceEstimate | None) -> bool:
        config = self.config
        if estimate is None or (config.target_ess is None and config.target_kl is None):
            return False
        if self.phase_step < self.phase.settled_at:
            return False  # not yet trained on the target itself
        if self.kept is not None and not self.kept.is_surpassed_by(estimate):
            return False
        has_ess = config.target_ess is None or estimate.ess_fraction >= config.target_ess
        gap = estimate.log_partition - estimate.elbo
        return has_ess and (config.target_kl is None or gap <= config.target_kl)


def _parameter_groups(phases: Sequence[Phase], learning_rate: float | int) -> list[dict[str, Any]]:
    """Groups for an optimiser of all that any phase trains, each parameter once."""
    groups, seen = [], set[int]()
    for phase in phases:
        for group in phase.task.parameter_groups(learning_rate):
            new = [value for value in group["params"] if id(value) not in seen]
            seen.update(map(id, new))
            if new:
                groups.append({**group, "params": new})
    return groups


def _metrics_row(progress: TrainingProgress) -> Row:
    row: Row = {
        "step": progress.step,
        "seconds": progress.seconds,
        "loss": progress.loss,
    }
    if progress.estimate is not None:
        row |= {
            "log_partition": progress.estimate.log_partition,
            "elbo": progress.estimate.elbo,
            "ess": progress.estimate.ess_fraction,
        }
    return row
