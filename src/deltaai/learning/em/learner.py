"""Variational EM: q follows the posterior of p, and p learns at what q draws.

    E-step: lower the E-step's loss of q(h | x)         M-step: raise log p(h, x) at the draws

by Adam, at the same draws or in turns. The learner offers what every learner of images does
(:class:`~deltaai.learning.image_learner.ImageLearner`); rows of zeros and ones of any kind will do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.arguments import (
    checked_count,
    checked_object,
    checked_path,
    checked_samples,
    checked_seed,
)
from deltaai.errors import ConfigError, Setting, StateError, TrainingError
from deltaai.io import ImageSet, binarised
from deltaai.learning.em.config import LatentConfig
from deltaai.learning.em.latent_model import LatentModel, Rows
from deltaai.learning.em.posterior import build_posterior
from deltaai.learning.em.steps.base import Batch, Parts
from deltaai.learning.em.steps.registry import E_STEPS
from deltaai.learning.em.structure import LatentStructure
from deltaai.learning.image_learner import checked_end, progress_of, rate_at
from deltaai.models import zoo
from deltaai.optimizers import Adam
from deltaai.randomness import generator_of, integers
from deltaai.registry import entry_of
from deltaai.sampling import ON_POLICY, Schedule, sample_ancestrally
from deltaai.threads import side_by_side
from deltaai.training import read_state, write_state

_KIND = "latent-variable model"
_COLUMNS_AT_ONCE = 2000  # of weighted draws
_ROWS_SEEN_FIRST = 1000  # rows whose means p starts from


class LatentLearner:
    """p and q of a latent-variable model, and how they learn.

    Parameters
    ----------
    structure : latents and what they explain.
    grey : rows of probabilities that zeros and ones are drawn from anew every time; zeros and ones
        are taken as they are.
    config : everything else.
    seed : of all that is random.
    name : of the data, to tell runs apart.
    """

    def __init__(
        self,
        structure: LatentStructure,
        grey: Rows,
        config: LatentConfig,
        *,
        seed: int = 0,
        name: str = "rows",
    ) -> None:
        checked_object("structure", structure, LatentStructure, "build one by LatentStructure.of")
        checked_object("config", config, LatentConfig, "give the settings as one")
        self.structure, self.config = structure, config
        self.grey = grey = self._checked(grey, "the data")
        self.generator = generator_of(checked_seed(seed))
        kind = entry_of(E_STEPS, "method", config.method)
        self.model = LatentModel(structure, config, generator=self.generator, device=grey.device)
        self.model.set_means(grey[:_ROWS_SEEN_FIRST])
        self.posterior, orders = build_posterior(
            self.model, config, is_factorised=kind.is_factorised, generator=self.generator
        )
        parts = Parts(self.model, self.posterior, orders, config, len(grey), self.generator)
        self.step = kind.build(parts)
        self._schedule = Schedule.build(self.posterior, [orders.fixed], masks=orders.kind == "many")
        rate = config.learning_rate
        learned = [*self.posterior.parameter_groups(rate), *self.step.parameter_groups(rate)]
        self._optimizers = {
            "q": Adam(learned, lr=rate, fused=True),
            "p": Adam(self.model.parameters(), lr=config.model_learning_rate, fused=True),
        }
        self._rates = {
            key: [group["lr"] for group in optimizer.param_groups]
            for key, optimizer in self._optimizers.items()
        }
        self.num_updates, self.seconds = 0, 0.0
        self.clock: Callable[[], float] = time.perf_counter
        self.losses: dict[str, float] = {}
        self._identity = {"data": name, "number": len(grey), "seed": seed}

    @classmethod
    def of(cls, images: ImageSet, config: LatentConfig, *, seed: int = 0) -> LatentLearner:
        """The pyramid of the paper over images; a smaller one if they are small."""
        checked_object("images", images, ImageSet, "take that of image_set")
        structure = LatentStructure.of_pyramid(pyramid_over(images.side))
        return cls(structure, images.train, config, seed=seed, name=images.name)

    def _checked(self, rows: Any, where: str) -> Rows:  # noqa: ANN401
        """Rows that fit the structure, with values from zero to one."""
        found = checked_object(where, rows, Tensor, "give a tensor of rows", StateError)
        expected = self.structure.num_observed
        if found.ndim != 2 or found.shape[1] != expected or not len(found):
            raise StateError(
                f"{where} have shape {tuple(found.shape)}: give at least one row of {expected} "
                "values, one for each observed variable"
            )
        found = found if found.is_floating_point() else found.float()
        if not bool(((found >= 0) & (found <= 1)).all()):
            raise StateError(f"{where} have values outside 0 to 1: these are probabilities of one")
        return found

    @property
    def num_parameters(self) -> Mapping[str, int]:
        """How many numbers are learned in p and in q."""
        return {
            "p": sum(value.numel() for value in self.model.parameters()),
            "q": sum(value.numel() for value in self.posterior.trained.parameters()),
        }

    # -- learning --------------------------------------------------------------------------------

    def run(self, *, seconds: float | int | None = None, updates: int | None = None) -> None:
        """Train on until the clock or the updates say so, or the budget is spent."""
        budget = (self.config.seconds, self.config.updates)
        end = checked_end(seconds, updates, budget)
        started = self.clock() - self.seconds
        while progress_of(self, end) < 1:
            self._update(rate_at(progress_of(self, budget), self.config.decay))
            self.num_updates += 1
            self.seconds = self.clock() - started

    def _update(self, rate: float) -> None:
        """One update of p, of q, or of both at the same draws."""
        config = self.config
        if self.num_updates == 0:
            self.step.begin(self._batch(), self.generator)
        if self.num_updates % config.redraw_every == 0:
            self.step.redraw(self.num_updates)
        draws = self.step.draw(self._batch(), self.generator)
        losses = {
            "p": lambda: self.step.model_loss(draws),
            "q": lambda: self.step.loss(draws, self.generator),
        }
        if config.alternate:  # q first
            del losses["qp"[1 - self.num_updates // config.alternate % 2]]
        with torch.enable_grad():
            side_by_side(*(partial(self._differentiate, *each) for each in losses.items()))
        for which in losses:
            self._descend(which, rate)

    def _batch(self) -> Batch:
        numbers = integers(len(self.grey), (self.config.batch,), self.generator, self.grey.device)
        return Batch(numbers, binarised(self.grey[numbers], self.generator))

    def _differentiate(self, which: str, loss_of: Callable[[], Float[Tensor, ""]]) -> None:
        """Compute the loss of p or q, and its gradient."""
        loss = loss_of()
        self.losses[which] = value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss of {which} is {value} after {self.num_updates} updates: lower ",
                Setting("learning_rate" if which == "q" else "model_learning_rate"),
            )
        self._optimizers[which].zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]

    def _descend(self, which: str, rate: float) -> None:
        """Make a step of p or q along its gradient."""
        optimizer = self._optimizers[which]
        learned = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(learned, self.config.largest_step)
        for group, whole in zip(optimizer.param_groups, self._rates[which], strict=True):
            group["lr"] = rate * whole
        optimizer.step()

    # -- what it knows -----------------------------------------------------------------------------

    @torch.no_grad()
    def log_weights(
        self, images: Rows, num_samples: int, generator: torch.Generator | None
    ) -> Float[Tensor, "sample batch"]:
        """Give log p(x, h) - log q(h | x) of latents drawn for each row of zeros and ones."""
        checked_samples(num_samples)
        images = self._checked(images, "the rows to weigh")
        parts = [
            torch.cat(
                [
                    self._weights(some, number, generator)
                    for number in _portions(num_samples, max(_COLUMNS_AT_ONCE // len(some), 1))
                ]
            )
            for some in torch.split(images, max(_COLUMNS_AT_ONCE // num_samples, 1))
        ]
        return torch.cat(parts, dim=1)

    def _weights(
        self, rows: Rows, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "sample batch"]:
        latents, log_q = self._draw(rows, number, generator)
        log_p = self.model.log_joint(latents, rows.repeat_interleave(number, dim=0))
        return (log_p - log_q.double()).view(len(rows), number).T

    def _draw(
        self, rows: Rows, number: int, generator: torch.Generator | None
    ) -> tuple[Int[Tensor, "latent draw"], Float[Tensor, "draw"]]:
        """Latents of q, so many for each row, with their log q; those of a row together."""
        context = self.posterior.context_of(rows)
        drawn, log_q = sample_ancestrally(
            self.posterior,
            self._schedule,
            len(rows) * number,
            policy=ON_POLICY,
            generator=generator,
            context=None if context is None else context.repeated(number),
        )
        return drawn.flatten(1), log_q.flatten()

    @torch.no_grad()
    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number observed"]:
        """Probabilities of what is observed, given latents drawn from p."""
        return self.model.means(self.model.draw(checked_count("number", number, 1), generator))

    @torch.no_grad()
    def reconstruct(
        self, images: Rows, generator: torch.Generator | None
    ) -> Float[Tensor, "batch observed"]:
        """Probabilities of what is observed, given latents drawn from q for each row."""
        rows = self._checked(images, "the rows to reconstruct")
        return self.model.means(self._draw(rows, 1, generator)[0])

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write all that the rest of the run depends on."""
        state = {
            "p": dict(self.model.state_dict()),
            "q": dict(self.posterior.trained.state_dict()),
            "optimizers": {key: one.state_dict() for key, one in self._optimizers.items()},
            "step": self.step.state(),
            "generator": self.generator.get_state(),
            "num_updates": self.num_updates,
            "seconds": self.seconds,
        }
        write_state(checked_path(path), _KIND, self._identity, self.config.to_dict(), state)

    def restore(self, path: str | Path) -> None:
        """Go on where a run of the same data, settings and seed was saved."""
        read_state(
            checked_path(path),
            _KIND,
            self._identity,
            self.config.to_dict(),
            free=(),
            others="other data or another seed",
            restore=self._take_up,
        )

    def _take_up(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["p"])
        self.posterior.trained.load_state_dict(state["q"])
        for key, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][key])
        self.step.restore(state["step"])
        self.generator.set_state(state["generator"])
        self.num_updates, self.seconds = int(state["num_updates"]), float(state["seconds"])
        if self.num_updates:
            every = self.config.redraw_every
            self.step.redraw((self.num_updates - 1) // every * every)


def pyramid_over(side: int) -> zoo.Pyramid:
    """The paper's pyramid for 28 x 28 pixels, one of 40 latents for 8 x 8."""
    if side == 28:
        return zoo.pyramid()
    if side == 8:
        return zoo.pyramid(side=8, windows=((4, 2), (3, 1)))
    raise ConfigError(
        f"there is no pyramid for images of {side} x {side}: build a LatentStructure of your own"
    )


def _portions(whole: int, most: int) -> list[int]:
    """Split a number into parts of bounded size."""
    return [min(most, whole - start) for start in range(0, whole, most)]
