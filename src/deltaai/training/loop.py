"""The training loop, read from top to bottom.

Each update: (now and then) orders are drawn, (now and then) states are drawn from the policy and
what they fix is prepared, the squared residual of every variable's change is averaged, and Adam
takes a step. Polishing updates, if there are any, come last: full states from q, half of them
flattened, and the variance of their log weights as the loss. Everything random comes from two
generators whose states are in the checkpoint, so a run that was killed and resumed is the run that
was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.conditionals import Proposal, known_under
from deltaai.errors import TrainingError
from deltaai.graphs import Dag
from deltaai.objectives import (
    DeltaBatch,
    PathBatch,
    delta_residuals,
    draw_alternatives,
    every_alternative,
    log_variance_losses,
    prepare,
    prepare_paths,
)
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.sampling.orders import Orders
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.training.checkpoint import load_tensors, save_tensors
from deltaai.training.config import TrainingConfig
from deltaai.training.metrics import MetricsLog
from deltaai.training.packing import pack_state, unpack_state
from deltaai.training.schedules import inverse_temperature_at, learning_rate_at, polish_rate_at

CHECKPOINT_KIND = "checkpoint"

# Polishing needs no flips, so its batches are large; half of the states are flattened, for a loss
# that is only taken where q already is would let q forget the modes it visits seldom.
POLISH_BATCH = 256
POLISH_RESAMPLE = 2
POLISH_BELOW = 0.98  # effective sample size; above it there is nothing to polish
# Flattened states of a large model lie far from q and teach it little once it is roughly right.
POLISH_BELOW_IF_LARGE = 0.5
LARGE = 500  # variables
POLISH_POLICY = Policy(temperature=2.0, tempered_share=0.5)


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
    """One run: a proposal, where its orders come from, settings, and the state between updates.

    Parameters
    ----------
    proposal : the q to train; its conditionals are changed in place.
    orders : one order or many.
    config : the settings.
    identity : what a checkpoint must agree on, such as the model's hash.
    data : states to train at instead of those the policy draws, one row each.
    """

    proposal: Proposal
    orders: Orders
    config: TrainingConfig
    identity: Mapping[str, str | int | float] = field(default_factory=dict)
    data: Int[Tensor, "row var"] | None = None

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.config.seed)
        self.rng = np.random.default_rng(self.config.seed)
        self.parameters = list(self.proposal.conditionals.parameters())
        groups = self.proposal.conditionals.parameter_groups(self.config.learning_rate)
        self.rate_scales = [group["lr"] / self.config.learning_rate for group in groups]
        self.optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
        self.step = 0
        self.seconds = 0.0
        self.kept: dict[str, Tensor] = {}  # q as it was before polishing
        self.kept_quality = (0.0, 0.0, 0.0)  # its effective sample size, log Z and standard error
        self.dags: list[Dag] = []
        self.batch: DeltaBatch | PathBatch | None = None
        self.last_step = self.config.steps + self.config.polish_steps
        # Scores of large models need double precision, even if their factors are single.
        self.scorer = self.proposal.model.to(dtype=torch.float64)
        self.policy = policy_of(self.config)
        self.is_several = self.orders.kind == "many"
        # Variables with one state have no residual; they do not dilute the mean.
        self.num_free = max(int((self.proposal.model.num_states > 1).sum()), 1)

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
            if self.step % config.redraw_orders_every == 0 or not self.dags:
                self._draw_orders()
            if self.step == config.steps and not self._begin_polishing():
                break
            if self.step % self._resample_every == 0 or self.batch is None:
                self._draw_states()
            loss = self._update(checkpoint)
            self.step += 1
            self.seconds = time.perf_counter() - started
            progress = Progress(self.step, self.last_step, loss, self.seconds)
            is_last = self.step == self.last_step or self._is_late()
            is_due = config.evaluate_every and self.step % config.evaluate_every == 0
            if is_last or is_due or self.step == config.steps:
                progress.estimate = estimate = self.evaluate(config.evaluation_samples)
                if metrics is not None:
                    metrics.append(_metrics_row(progress))
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

    def _begin_polishing(self) -> bool:
        """Keep q as it is; say whether it leaves anything to polish."""
        if not self.kept:
            estimate = self.evaluate(self.config.evaluation_samples)
            self.kept_quality = (
                estimate.ess_fraction,
                estimate.log_partition,
                min(estimate.stderr, 1.0),
            )
            state = self.proposal.conditionals.state_dict()
            self.kept = {name: value.clone() for name, value in state.items()}
            self.batch = None  # polishing has states of its own
        is_large = self.proposal.model.num_variables > LARGE
        return self.kept_quality[0] < (POLISH_BELOW_IF_LARGE if is_large else POLISH_BELOW)

    def _better_of_both(self, estimate: ImportanceEstimate | None) -> ImportanceEstimate | None:
        """Go back to the q from before polishing if that was better."""
        if self.kept and estimate is not None and not self._is_improved(estimate):
            self.proposal.conditionals.load_state_dict(self.kept)
            return self.evaluate(self.config.evaluation_samples)
        return estimate

    def _is_improved(self, estimate: ImportanceEstimate) -> bool:
        """Whether polishing helped: weights more even, and no part of the target lost.

        A q that collapsed has perfectly even weights; its estimate of log Z gives it away.
        """
        ess, log_partition, stderr = self.kept_quality
        lost = log_partition - estimate.log_partition
        return estimate.ess_fraction >= ess and lost <= 3 * (stderr + estimate.stderr) + 0.01

    def _draw_orders(self) -> None:
        if self.orders.kind == "one" and self.dags:
            return
        self._set_orders(self.orders.draw(self.rng))
        self.batch = None  # its states belong to the orders before

    def _set_orders(self, dags: list[Dag]) -> None:
        self.dags = dags
        self.schedule = Schedule.build(self.proposal, dags, masks=self.is_several)
        self.known_by_dag = known_under(self.proposal.layout, dags) if self.is_several else None

    def _draw_states(self) -> None:
        size = self.config.batch_size
        if self.is_polishing:
            size = max(size, POLISH_BATCH)
        each = max(size // len(self.dags), 1)
        beta = inverse_temperature_at(self.config, self.step)
        if self.data is not None and not self.is_polishing:
            shape = (each * len(self.dags),)
            rows = torch.randint(len(self.data), shape, generator=self.generator)
            states = self.data[rows].T.contiguous()
        else:
            columns, _ = sample_ancestrally(
                self.proposal,
                self.schedule,
                each,
                policy=POLISH_POLICY if self.is_polishing else self.policy,
                beta=beta,
                generator=self.generator,
            )
            states = columns.flatten(1)
        num_states = self.proposal.model.num_states
        if self.config.alternatives == "all" and not self.is_polishing:
            states, alternatives = every_alternative(states, num_states)
        else:
            alternatives = draw_alternatives(states, num_states, self.generator)
        self._set_batch(states, alternatives, beta, each)

    @property
    def _resample_every(self) -> int:
        every = self.config.resample_every
        return min(every, POLISH_RESAMPLE) if self.is_polishing else every

    @property
    def is_polishing(self) -> bool:
        """Whether the local updates are done."""
        return self.step >= self.config.steps

    def _set_batch(self, states: Tensor, alternatives: Tensor, beta: float, each: int) -> None:
        """Prepare states: ``each`` columns an order, the whole perhaps repeated."""
        known = None
        if self.known_by_dag is not None:
            copies = states.shape[1] // (each * len(self.dags))
            known = self.known_by_dag.repeat_interleave(each, dim=1).repeat(1, copies)
        self.batch_beta, self.alternatives, self.each = beta, alternatives, each
        if self.is_polishing:
            with torch.no_grad():
                log_score = self.scorer.log_score(states.T)
            self.batch = prepare_paths(self.proposal, states, log_score, known)
        else:
            self.batch = prepare(self.proposal, states, alternatives, known, beta)

    def _update(self, checkpoint: Path | None) -> float:
        if isinstance(self.batch, PathBatch):
            rate = polish_rate_at(self.config, self.step)
            loss = log_variance_losses(self.proposal, self.batch).mean()
        else:
            assert self.batch is not None
            rate = self.config.learning_rate * learning_rate_at(self.config, self.step)
            residuals = delta_residuals(self.proposal, self.batch)
            loss = residuals.square().sum() / (self.num_free * residuals.shape[1])
        for group, scale in zip(self.optimizer.param_groups, self.rate_scales, strict=True):
            group["lr"] = rate * scale
        value = float(loss.detach())
        if not math.isfinite(value):
            kept = f"; the last good state is in {checkpoint}" if checkpoint else ""
            raise TrainingError(
                f"the loss is {value} at step {self.step}: lower learning_rate, set gradient_clip "
                f"or raise anneal_steps{kept}"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.gradient_clip)
        self.optimizer.step()
        return value

    def evaluate(self, num_samples: int) -> ImportanceEstimate:
        """Importance estimate of log Z by q as it is, at the target's own temperature."""
        each = max(num_samples // len(self.dags), 1)
        columns, log_q = sample_ancestrally(
            self.proposal, self.schedule, each, policy=ON_POLICY, generator=self.generator
        )
        with torch.no_grad():
            log_p = self.scorer.log_score(columns.flatten(1).T)
        return estimate_from_log_weights(log_p - log_q.flatten().double())

    def _is_late(self) -> bool:
        return self.config.time_limit is not None and self.seconds >= self.config.time_limit

    def _is_reached(self, estimate: ImportanceEstimate | None) -> bool:
        config = self.config
        if estimate is None or (config.target_ess is None and config.target_kl is None):
            return False
        if self.step < config.anneal_steps:
            return False  # not yet trained on the target itself
        if self.kept and not self._is_improved(estimate):
            return False
        has_ess = config.target_ess is None or estimate.ess_fraction >= config.target_ess
        gap = estimate.log_partition - estimate.elbo
        return has_ess and (config.target_kl is None or gap <= config.target_kl)

    # -- checkpoints ---------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write all that the rest of the run depends on."""
        assert self.batch is not None
        state = {
            "conditionals": dict(self.proposal.conditionals.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "rng": self.rng.bit_generator.state,
            "orders": torch.tensor([dag.order for dag in self.dags]),
            "states": self.batch.columns,
            "alternatives": self.alternatives,
            "beta": self.batch_beta,
            "each": self.each,
            "kept": self.kept,
            "kept_quality": self.kept_quality,
            "step": self.step,
            "seconds": self.seconds,
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
        if metadata.get("identity") != dict(self.identity):
            raise TrainingError(
                f"{path} belongs to another model or another kind of sampler; start anew, or give "
                "the model it was made for"
            )
        theirs, ours = metadata["config"], self.config.to_dict()
        changed = [name for name in ours if theirs.get(name) != ours[name] and name != "time_limit"]
        if changed:
            raise TrainingError(
                f"{path} was made with other settings ({', '.join(changed)}); use the same to "
                "resume, or start anew"
            )
        state = unpack_state(tensors, metadata["state"])
        self.proposal.conditionals.load_state_dict(state["conditionals"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.rng.bit_generator.state = state["rng"]
        self.step, self.seconds = state["step"], state["seconds"]
        self.kept, self.kept_quality = state["kept"], state["kept_quality"]
        graph = self.orders.graph
        self._set_orders([Dag(graph, tuple(order)) for order in state["orders"].tolist()])
        self._set_batch(state["states"], state["alternatives"], state["beta"], state["each"])


def policy_of(config: TrainingConfig) -> Policy:
    """Return the policy that the settings name."""
    match config.policy:
        case "tempered":
            return Policy(temperature=config.temperature)
        case "tempered-mixture":
            return Policy(temperature=config.temperature, tempered_share=config.exploration)
        case "uniform-mixture":
            return Policy(uniform_share=config.exploration)
        case "uniform":
            return Policy(uniform_share=1.0)
    return ON_POLICY


def _metrics_row(progress: Progress) -> dict[str, float | int]:
    row: dict[str, float | int] = {
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
