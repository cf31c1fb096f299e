"""The training loop, read from top to bottom.

Each update: (now and then) orders are drawn, (now and then) states are drawn from the policy, the
task gives its loss at them, and Adam takes a step. Polishing updates, if there are any, come last.
Everything random comes from two generators whose states are in the checkpoint, so a run that was
killed and resumed is the run that was not.

What is trained and at what is the business of a :class:`~deltaai.training.task.Task`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import FormatError, Setting, TimeLimitError, TrainingError, one_line
from deltaai.objectives.log_variance import LogVarianceObjective
from deltaai.randomness import generator_of
from deltaai.sampling.importance import ImportanceEstimate
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.training import polishing
from deltaai.training.checkpoint import load_tensors, save_tensors
from deltaai.training.config import TrainingConfig
from deltaai.training.full_samples import FullSamples
from deltaai.training.metrics import MetricsLog, Row
from deltaai.training.packing import pack_state, unpack_state
from deltaai.training.schedules import (
    inverse_temperature_at,
    learning_rate_at,
    polish_rate_at,
    temperature_at,
)
from deltaai.training.task import Task
from deltaai.watch import seconds_left

CHECKPOINT_KIND = "checkpoint"
_FREE = ("time_limit", "checkpoint_every")  # settings that may change when a run is resumed
_ESTIMATE_UPDATES, _FORGETTING = 2, 0.9
# The way back takes so many times as long as the loss, and nothing can stop it; and seconds of work
# that the first update has in any case.
_BACKWARD, _LEAST_WORK = 2.0, 1.0


@dataclass
class Progress:
    """Where a run stands, for those who watch it."""

    step: int
    steps: int
    loss: float
    seconds: float
    estimate: ImportanceEstimate | None = None


@dataclass(eq=False)
class Trainer:
    """One run: a task, settings, and the state between updates.

    Parameters
    ----------
    task : what is trained, and at what.
    config : the settings.
    identity : what a checkpoint must agree on, such as the model's hash.
    """

    task: Task
    config: TrainingConfig
    identity: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generator = generator_of(self.config.seed)
        self.rng = np.random.default_rng(self.config.seed)
        self.parameters = list(self.task.trained.parameters())
        groups = self.task.parameter_groups(self.config.learning_rate)
        self.rate_scales = [group["lr"] / self.config.learning_rate for group in groups]
        self.optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
        self.step = 0
        self.seconds = 0.0  # spent so far, setting up included
        # Most seconds that an update, with what is drawn for it, took lately, and an estimate:
        # another of each must fit before a limit of time.
        self.longest_update = self.longest_estimate = 0.0
        self.before: polishing.Before | None = None  # q as it was before polishing
        self.history: list[Row] = []  # what was measured, from the first step on
        self.last_step = self.config.steps + self.config.polish_steps

    # -- the loop ------------------------------------------------------------------------------

    def run(
        self,
        *,
        checkpoint: Path | None = None,
        metrics: MetricsLog | None = None,
        watch: Callable[[Progress], None] | None = None,
    ) -> ImportanceEstimate | None:
        """Train until the steps, the time or a target is reached; return the last estimate."""
        config, started = self.config, time.perf_counter() - self.seconds
        estimate = None
        while self.step < self.last_step:
            begun = time.perf_counter()
            if self.step % config.redraw_orders_every == 0:
                self.task.redraw(self.rng)
            if self.step == config.steps and not self._begin_polishing():
                break
            with self._watched(started):
                if self.step % self._resample_every == 0 or not self.task.is_drawn:
                    self._draw_states()
                loss = self._update(checkpoint)
            self.step += 1
            self.seconds = time.perf_counter() - started
            took = time.perf_counter() - begun
            self.longest_update = max(took, _FORGETTING * self.longest_update)
            progress = Progress(self.step, self.last_step, loss, self.seconds)
            is_last = self.step == self.last_step or self._is_late()
            is_due = config.evaluate_every and self.step % config.evaluate_every == 0
            if is_last or is_due or self.step == config.steps:
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
                break
        return self._better_of_both(estimate)

    def _watched(self, started: float) -> AbstractContextManager[None]:
        """A watch on the first update; how long the others take is known before."""
        limit = self.config.time_limit
        if limit is None or self.longest_update:
            return nullcontext()
        budget = Budget(sys.maxsize, limit, started + limit)
        return budget.watched("the first update of training", _LEAST_WORK)

    def _draw_states(self) -> None:
        size, policy = self.config.batch_size, policy_at(self.config, self.step)
        if self.is_polishing:
            size, policy = max(size, polishing.BATCH), polishing.POLICY
        beta = inverse_temperature_at(self.config, self.step)
        self.task.draw(size, policy, beta, self.generator)

    def _update(self, checkpoint: Path | None) -> float:
        rate = self.config.learning_rate * learning_rate_at(self.config, self.step)
        if self.is_polishing:
            rate = polish_rate_at(self.config, self.step)
        for group, scale in zip(self.optimizer.param_groups, self.rate_scales, strict=True):
            group["lr"] = rate * scale
        begun = time.perf_counter()
        loss = self.task.loss()
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
        found = self.task.estimate(self.config.evaluation_samples, self.generator)
        self.longest_estimate = max(self.longest_estimate, time.perf_counter() - start)
        return found

    @property
    def _resample_every(self) -> int:
        every = self.config.resample_every
        return min(every, polishing.RESAMPLE_EVERY) if self.is_polishing else every

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
        if self.step < config.anneal_steps:
            return False  # not yet trained on the target itself
        if self.before is not None and not self.before.is_surpassed_by(estimate):
            return False
        has_ess = config.target_ess is None or estimate.ess_fraction >= config.target_ess
        gap = estimate.log_partition - estimate.elbo
        return has_ess and (config.target_kl is None or gap <= config.target_kl)

    # -- polishing -----------------------------------------------------------------------------

    @property
    def is_polishing(self) -> bool:
        """Whether the updates with the task's own objective are done."""
        return self.step >= self.config.steps

    def _begin_polishing(self) -> bool:
        """Keep q as it is; say whether it leaves anything to polish."""
        if self.before is None:
            estimate = self._estimate()
            weights = {k: v.clone() for k, v in self.task.trained.state_dict().items()}
            self.before = polishing.Before(
                weights, estimate.ess_fraction, estimate.log_partition, min(estimate.stderr, 1.0)
            )
            self._take_up_polishing()
        assert isinstance(self.task, FullSamples)
        return self.before.is_worth_polishing(self.task.proposal.model.num_variables)

    def _take_up_polishing(self) -> None:
        if not isinstance(self.task, FullSamples):
            raise TrainingError(
                "only training at full samples can be polished: choose ",
                Setting("polish_steps", 0),
            )
        self.task = self.task.with_objective(LogVarianceObjective(self.task.proposal))

    def _better_of_both(self, estimate: ImportanceEstimate | None) -> ImportanceEstimate | None:
        """Go back to the q from before polishing if that was better."""
        if self.before is None or estimate is None or self.before.is_surpassed_by(estimate):
            return estimate
        self.task.trained.load_state_dict(self.before.weights, strict=False)
        return self._estimate()

    # -- checkpoints ---------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write all that the rest of the run depends on."""
        state = {
            "trained": dict(self.task.trained.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "rng": self.rng.bit_generator.state,
            "task": self.task.state(),
            "before": None if self.before is None else vars(self.before),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
        }
        tensors, packed = pack_state(state)
        metadata = {
            "identity": dict(self.identity),
            "config": self.config.to_dict(),
            "state": packed,
        }
        save_tensors(path, tensors, metadata, kind=CHECKPOINT_KIND)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same model and settings."""
        tensors, metadata = load_tensors(path, CHECKPOINT_KIND)
        try:
            self._take_up(path, tensors, metadata)
        except TrainingError:
            raise
        except Exception as error:  # the checksum is right, so whoever made the file is to blame
            raise FormatError(
                path,
                None,
                f"the run in it is incomplete or of another version: {one_line(error)}; start anew",
            ) from error

    def _take_up(self, path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        if metadata.get("identity") != dict(self.identity):
            raise TrainingError(
                f"{path} belongs to another model or another kind of sampler; start anew, or give "
                "the model it was made for"
            )
        theirs, ours = metadata["config"], self.config.to_dict()
        changed = [name for name in ours if theirs.get(name) != ours[name] and name not in _FREE]
        if changed:
            listed = [part for name in changed for part in (", ", Setting(name))][1:]
            raise TrainingError(
                f"{path} was made with other settings (",
                *listed,
                "); use the same to resume, or start anew",
            )
        state = unpack_state(tensors, metadata["state"])
        self.step, self.seconds = state["step"], state["seconds"]
        if type(self.step) is not int or self.step < 0 or not math.isfinite(self.seconds):
            raise ValueError(f"step {self.step!r} after {self.seconds!r} seconds")
        self.history = state.get("history", [])  # runs of earlier versions have none
        if not _is_history(self.history, self.step):
            raise ValueError("its history is not a list of measurements up to its step")
        if state["before"] is not None:
            self.before = polishing.Before(**state["before"])
            self._take_up_polishing()
        self.task.trained.load_state_dict(state["trained"])
        self.optimizer.load_state_dict(state["optimizer"])
        for parameter, moments in self.optimizer.state.items():
            for name, value in moments.items():
                if name != "step" and value.shape != parameter.shape:
                    raise ValueError(f"moments of shape {tuple(value.shape)}")
        self.generator.set_state(state["generator"])
        self.rng.bit_generator.state = state["rng"]
        self.task.restore(state["task"], self.generator)


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


def _is_history(history: object, step: int) -> bool:
    return isinstance(history, list) and all(
        isinstance(row, dict) and type(row.get("step")) is int and row["step"] <= step
        for row in history
    )


def _metrics_row(progress: Progress) -> Row:
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
