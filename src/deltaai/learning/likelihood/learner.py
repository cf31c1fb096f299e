"""The loop that moves p, read from top to bottom.

In each update: rows are chosen, the gradient gives a surrogate at them (training its q or moving
its chains on the way), a prior is added, and the optimiser takes a step. Now and then p is judged
by rows that were held out, and by whoever called. Everything random comes from generators whose
states are in the checkpoint, so a run that was killed and resumed is the run that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ConfigError, Setting, TimeLimitError, TrainingError, shown
from deltaai.learning.likelihood.config import LikelihoodConfig
from deltaai.learning.likelihood.gradients import Gradient, all_of
from deltaai.learning.likelihood.held_out import HeldOut, HeldOutLikelihood
from deltaai.learning.likelihood.learner_files import save_learner
from deltaai.learning.likelihood.orthant_wise import OrthantWise
from deltaai.learning.likelihood.proximal import shrink_after_adam, stationarity
from deltaai.models import FactorGraph
from deltaai.optimizers import LBFGS, Adam
from deltaai.randomness import generator_of
from deltaai.training import TrainingConfig, TrainingProgress, learning_rate_at

Watch = Callable[[TrainingProgress], None]
Measure = Callable[[FactorGraph], Mapping[str, float]]

_MOST_TRIALS, _SMALLEST_CHANGE = 25, 1e-15  # of a line search


@dataclass(eq=False)
class Learner:
    """One run: a model that is moved in place, and the state between updates.

    Parameters
    ----------
    model : p; its parameters are changed in place.
    gradient : of the likelihood of its rows.
    config : the settings.
    held_out : judges p, if there are rows for that.
    identity : what a checkpoint must agree on.
    measure : gives more numbers for the history at every judgement.
    """

    model: FactorGraph
    gradient: Gradient
    config: LikelihoodConfig
    held_out: HeldOut | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    measure: Measure | None = None

    def __post_init__(self) -> None:
        self.parameters = list(self.model.parameters())
        self.generator = generator_of(self.config.seed)
        self.optimizer = self._optimizer()
        self._rates = TrainingConfig(
            steps=self.config.steps,
            learning_rate=self.config.learning_rate,
            schedule=self.config.schedule,
        )
        self.step, self.seconds, self.is_converged = 0, 0.0, False
        self.history: list[dict[str, Any]] = []
        self.judged: HeldOutLikelihood | None = None
        self.best: tuple[float, list[Tensor]] | None = None  # what was judged best, and by how much
        self.num_worse = 0  # judgements since then

    def run(self, *, checkpoint: Path | None = None, watch: Watch | None = None) -> None:
        """Learn until the steps are made, p converged, or judgements no longer improve."""
        config, started = self.config, time.perf_counter() - self.seconds
        while not self.is_done:
            chosen = self._choose()
            try:
                loss = self._update(chosen)
            except TimeLimitError:
                if self.step == 0:
                    raise
                break  # what was learned before is the answer
            self.step += 1
            self.seconds = time.perf_counter() - started
            is_due = config.evaluate_every and self.step % config.evaluate_every == 0
            if is_due or self.step == config.steps or self.is_converged:
                self._judge(loss)
            if watch is not None:
                watch(TrainingProgress(self.step, config.steps, loss, self.seconds))
            is_saved = config.checkpoint_every and self.step % config.checkpoint_every == 0
            if checkpoint is not None and (is_saved or self.is_done):
                save_learner(self, checkpoint)
        if config.patience is not None and self.best is not None:
            self._set(self.best[1])
        if self.held_out is not None:
            with suppress(TimeLimitError):  # what was learned does not depend on it
                self.judged = self.held_out.measure(is_last=True)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do: steps, convergence, patience, or time."""
        config = self.config
        has_waited = config.patience is not None and self.num_worse >= config.patience
        is_late = config.time_limit is not None and self.seconds >= config.time_limit
        return self.step >= config.steps or self.is_converged or has_waited or is_late

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self.config
        if config.optimizer == "adam":
            return Adam(self.parameters, lr=config.learning_rate, betas=(0.9, 0.99))
        if not self.gradient.has_value:
            raise TrainingError(
                "a line search needs the value of what is minimised, and this gradient is an "
                "estimate without one: choose ",
                Setting("optimizer", "adam"),
            )
        if config.l1:
            return OrthantWise(self.parameters, config.l1)
        return LBFGS(
            self.parameters,
            max_iter=1,
            max_eval=_MOST_TRIALS,
            tolerance_grad=0.0,  # convergence is looked for here
            tolerance_change=_SMALLEST_CHANGE,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

    def _choose(self) -> Int[Tensor, "chosen"]:
        rows, size = self.gradient.rows, self.config.batch_size
        if size is None or size >= len(rows):
            return all_of(rows)
        order = torch.randperm(len(rows), generator=self.generator, dtype=torch.long, device="cpu")
        return order[:size].to(rows.states.device)

    def _update(self, chosen: Int[Tensor, "chosen"]) -> float:
        """Take a step; say what the loss was before it."""
        losses: list[float] = []

        def closure() -> Float[Tensor, ""]:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.gradient.surrogate(chosen) + self._penalty()
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                raise TrainingError(
                    f"the loss is {losses[-1]} at step {self.step}: lower ",
                    Setting("learning_rate"),
                    " or set ",
                    Setting("weight_decay", 1e-4),
                )
            loss.backward()  # type: ignore[no-untyped-call]
            if len(losses) == 1:  # where the step begins
                self.is_converged = self._is_flat(len(chosen))
            return loss

        sizes = self._sizes()
        with torch.enable_grad():
            if isinstance(self.optimizer, Adam):
                self._step_of_adam(self.optimizer, closure)
            else:
                before = [value.detach().clone() for value in self.parameters]
                try:
                    self.optimizer.step(closure)  # type: ignore[arg-type]
                except TimeLimitError:  # in the middle of a line search
                    self._set(before)
                    raise
                if self.is_converged:  # the step was made all the same
                    self._set(before)
                pairs = zip(before, self.parameters, strict=True)
                self.is_converged = all(torch.equal(one, other) for one, other in pairs)
        return losses[0] + self.config.l1 * sizes

    def _step_of_adam(self, optimizer: Adam, closure: Callable[[], Float[Tensor, ""]]) -> None:
        scale = learning_rate_at(self._rates, self.step)
        for group in optimizer.param_groups:
            group["lr"] = self.config.learning_rate * scale
        closure()
        if not self.is_converged:
            optimizer.step()
            if self.config.l1:
                shrink_after_adam(optimizer, self.config.l1)

    def _set(self, values: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(value)

    def _is_flat(self, num_chosen: int) -> bool:
        """Whether an exact gradient, with the penalty on sizes, is zero."""
        if not self.gradient.has_value or num_chosen < len(self.gradient.rows):
            return False
        return stationarity(self.parameters, self.config.l1) <= self.config.tolerance

    def _penalty(self) -> Float[Tensor, ""]:
        """The smooth penalty; that on sizes is the optimiser's."""
        total = torch.zeros((), dtype=torch.float64, device=self.model.device)
        if not self.config.weight_decay:
            return total
        for value in self.parameters:
            wide = value.double()
            centre = wide.mean() if self.config.decay_to == "mean" and wide.numel() else 0.0
            total = total + (wide - centre).square().sum()
        return 0.5 * self.config.weight_decay * total

    def _sizes(self) -> float:
        """Sum of the parameters' sizes, where it is penalised."""
        if not self.config.l1:
            return 0.0
        return sum(float(value.detach().double().abs().sum()) for value in self.parameters)

    def _judge(self, loss: float) -> None:
        """Take down where the run stands, and whether p is better than ever."""
        row = {"step": self.step, "seconds": self.seconds, "loss": loss, **self.gradient.report()}
        if self.held_out is not None:
            found = self.judged = self.held_out.measure()
            row |= found.row()
            # What cannot be trusted must not decide: the pseudo-likelihood is always known.
            is_sure = self.held_out.is_exact
            score = found.log_likelihood if is_sure else found.pseudo
            if self.best is None or score > self.best[0]:
                self.best = score, [value.detach().clone() for value in self.parameters]
                self.num_worse = 0
            else:
                self.num_worse += 1
        if self.measure is not None:
            row |= _numbers(self.measure(self.model))
        self.history.append(row)


def _numbers(measured: object) -> dict[str, float]:
    """What a user's function measured, if it is numbers by name."""
    numbers = (int, float)
    if isinstance(measured, Mapping) and all(
        isinstance(name, str) and isinstance(value, numbers) for name, value in measured.items()
    ):
        return {name: float(value) for name, value in measured.items()}
    raise ConfigError(
        Setting("measure"),
        f" returned {shown(measured)}; it must return numbers by name, such as {{'error': 0.1}}",
    )
