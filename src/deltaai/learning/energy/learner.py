"""Maximum likelihood for an energy of real rows, with an amortised sampler as the negative phase.

    ∇ log-likelihood = E_rows[∇ log p~(x)] - E_q[∇ log p~(x)]          (key ``ebm-gradient``)

q is trained, by any objective of ``fit``, for p as it is at each moment: at states that it draws
and, for a share, at rows. So all that the paper compares on human poses is one class with different
settings. Rows are in the box [-1, 1], the support of every variable of the energy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from deltaai.arguments import checked_count, checked_path
from deltaai.errors import ModelError, Setting, StateError, TrainingError
from deltaai.fitting import SamplerSpec, suitable_graph
from deltaai.learning.energy.config import EnergyConfig
from deltaai.learning.image_learner import checked_end, progress_of, rate_at
from deltaai.models import Columns, FactorGraph, StandardUnits
from deltaai.optimizers import Adam
from deltaai.randomness import generator_of, integers
from deltaai.sampling import (
    ON_POLICY,
    KeptSchedules,
    Source,
    Values,
    sample_ancestrally,
)
from deltaai.training import Trainer, TrainingConfig, phases_of, read_state, write_state

_KIND = "energy of rows"
_CLIP = 1.0  # norm of the gradient of p's weights
_AT_ONCE = 4096  # draws
_ENDLESS = 10**9  # updates of q that its trainer may make


class EnergyLearner:
    """An energy of rows and its sampler; a :class:`~deltaai.learning.RowLearner`.

    Parameters
    ----------
    model : the energy, whose weights are learned in place; every variable lies in [-1, 1].
    rows : to learn from, in the order of its variables.
    config : the settings.
    seed : of q's weights, and of all that is drawn.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> energy = zoo.pose_energy([("hip", 2), ("knee", 1)], [(0, 1)], 0, hidden=8)
    >>> learner = EnergyLearner(energy, torch.zeros(50, 3, dtype=torch.float64))
    >>> learner.run(updates=2)
    >>> learner.num_updates, learner.sample(4, None).shape
    (2, torch.Size([4, 3]))
    """

    def __init__(
        self,
        model: FactorGraph,
        rows: Float64[Tensor, "row column"],
        config: EnergyConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.config = config = EnergyConfig() if config is None else config
        low, high = model.bounds
        if not bool((model.is_real & (low == -1) & (high == 1)).all()):
            raise ModelError("an energy of rows has real variables with the support (-1, 1) alone")
        self.energy = [value for value in model.parameters() if value.requires_grad]
        if not self.energy:
            raise ModelError("the energy has no weights that learn: give it neural factors")
        if not len(rows):
            raise StateError("there are no rows to learn from")
        model.check_states(rows)
        self.model, self.rows = model, rows
        self.generator = generator_of(seed)
        spec = SamplerSpec(
            orders=config.orders,
            family=config.family,
            hidden=config.hidden,
            is_informed=False,
            head="normal",
        )
        zeros = torch.zeros(model.num_variables, dtype=torch.float64, device="cpu")
        units = StandardUnits(zeros, torch.ones_like(zeros), zeros)
        graph = suitable_graph(model)
        self.proposal, self.orders = spec.build(model, graph, seed=seed, units=units)
        values = _JitteredRows(rows, float(config.jitter)) if config.data_share else None
        source = Source(self.proposal, self.orders, None, values, float(config.data_share or 1.0))
        settings = _settings_of(config, model.num_variables, seed)
        self._trainer = Trainer(phases_of(settings, source), settings)
        self._rates = tuple(self._trainer.rate_scales)
        self._schedules = KeptSchedules(self.proposal, masks=spec.has_masks, is_given=False)
        self._optimizer = Adam(self.energy, lr=float(config.energy_rate), betas=(0.9, 0.99))
        self.num_updates, self.seconds = 0, 0.0
        self.clock: Callable[[], float] = time.perf_counter
        self._identity = {"rows": len(rows), "total": float(rows.sum()), "seed": seed}

    @property
    def num_parameters(self) -> Mapping[str, int]:
        """Weights of the energy and of its sampler."""
        return {
            "p": sum(value.numel() for value in self.energy),
            "q": sum(value.numel() for value in self.proposal.trained.parameters()),
        }

    def run(self, *, seconds: float | int | None = None, updates: int | None = None) -> None:
        """Train on until the clock or the updates say so, or the budget is spent."""
        budget = (self.config.seconds, self.config.updates)
        end = checked_end(seconds, updates, budget)
        started = self.clock() - self.seconds
        while progress_of(self, end) < 1:
            falling = rate_at(progress_of(self, budget))
            self._trainer.rate_scales = [rate * falling for rate in self._rates]
            with torch.enable_grad():
                self._trainer.advance(self.config.q_updates)
            self._move_energy(falling)
            self.num_updates += 1
            self.seconds = self.clock() - started

    def _move_energy(self, falling: float) -> None:
        """Make rows more likely than draws of q."""
        config = self.config
        seen = _jittered(self.rows, config.rows, float(config.jitter), self.generator)
        drawn = self._drawn(config.draws, self.generator).T.to(seen.dtype)
        for group in self._optimizer.param_groups:
            group["lr"] = float(config.energy_rate) * falling
        with torch.enable_grad():
            scores = self.model.log_score(torch.cat((seen, drawn)))
            loss = scores[len(seen) :].mean() - scores[: len(seen)].mean()
            if not math.isfinite(float(loss.detach())):
                raise TrainingError(
                    f"the likelihood is no number after {self.num_updates} updates: lower ",
                    Setting("energy_rate"),
                )
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.energy, _CLIP)
        self._optimizer.step()
        with torch.no_grad():
            for value in self.energy:
                value.mul_(1 - float(config.decay) * float(config.energy_rate) * falling)

    def _drawn(self, number: int, generator: torch.Generator | None) -> Columns:
        """Draws of q, in its first order."""
        schedule = self._schedules.of(self.orders.graph, self.orders.fixed.order)
        parts = []
        for start in range(0, number, _AT_ONCE):
            size = min(_AT_ONCE, number - start)
            columns, _ = sample_ancestrally(
                self.proposal,
                schedule,
                size,
                policy=ON_POLICY,
                generator=generator,
                is_evaluated=False,
            )
            parts.append(columns[:, 0])
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number column"]:
        """Draw new rows from q."""
        return self._drawn(checked_count("number", number, 1), generator).T.double()

    def save(self, path: str | Path) -> None:
        """Write all that the rest of the run depends on."""
        state = {
            "energy": list(self.energy),
            "optimizer": self._optimizer.state_dict(),
            "trainer": self._trainer.state(),
            "generator": self.generator.get_state(),
            "num_updates": self.num_updates,
            "seconds": self.seconds,
        }
        write_state(checked_path(path), _KIND, self._identity, self.config.to_dict(), state)

    def restore(self, path: str | Path) -> None:
        """Go on where a run of the same rows, settings and seed was saved."""
        read_state(
            checked_path(path),
            _KIND,
            self._identity,
            self.config.to_dict(),
            free=(),
            others="other rows or another seed",
            restore=self._take_up,
        )

    def _take_up(self, state: Mapping[str, Any]) -> None:
        num_updates, seconds = int(state["num_updates"]), float(state["seconds"])
        if num_updates < 0 or not seconds >= 0:
            raise ValueError(f"{num_updates} updates after {seconds} seconds")
        with torch.no_grad():
            for value, kept in zip(self.energy, state["energy"], strict=True):
                value.copy_(kept)
        self._optimizer.load_state_dict(state["optimizer"])
        self._trainer.restore(state["trainer"])
        self.generator.set_state(state["generator"])
        self.num_updates, self.seconds = num_updates, seconds


class _JitteredRows(Values):
    """Rows of data with some noise, inside the box.

    Parameters
    ----------
    rows : the data.
    jitter : deviation of the noise.
    """

    def __init__(self, rows: Float64[Tensor, "row column"], jitter: float) -> None:
        self.rows, self.jitter = rows, jitter

    def draw(self, proposal: Any, size: int, generator: torch.Generator) -> Columns:  # noqa: ANN401
        """Rows with replacement."""
        drawn = _jittered(self.rows, size, self.jitter, generator)
        return drawn.T.contiguous().to(proposal.device, proposal.value_dtype)


def _jittered(
    rows: Float64[Tensor, "row column"], number: int, jitter: float, generator: torch.Generator
) -> Float64[Tensor, "some column"]:
    """Some rows with noise; what would leave the box is thrown back into it."""
    chosen = rows[integers(len(rows), (number,), generator, rows.device)]
    noise = torch.randn(
        chosen.shape, generator=generator, dtype=rows.dtype, device=generator.device
    )
    moved = chosen + jitter * noise.to(rows.device)
    moved = torch.where(moved > 1, 2 - moved, moved)
    return torch.where(moved < -1, -2 - moved, moved).clamp(-1, 1)


def _settings_of(config: EnergyConfig, num_variables: int, seed: int) -> TrainingConfig:
    """How q is trained; the learner says for how long, and at which rates."""
    return TrainingConfig(
        objective=config.objective,
        steps=_ENDLESS,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule="constant",
        gradient_clip=1.0,
        resample_every=config.q_updates,
        redraw_orders_every=8,
        values="data" if config.data_share else "q",
        values_share=float(config.data_share or 1.0),
        log_partition=num_variables * math.log(2.0),
        evaluate_every=0,
        seed=seed,
    )
