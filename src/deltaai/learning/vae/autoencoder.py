"""A variational autoencoder: p(h) = N(0, 1), p(x | h) Bernoulli, q(h | x) a diagonal Gaussian.

An update takes one step up the evidence lower bound of a batch, with one reparametrised sample and
the exact divergence:

    E_q[log p(x | h)] - KL(q(h | x) || p(h)),   h = mean(x) + scale(x) noise

Pixels are drawn anew from the grey levels each time an image is seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from deltaai.arguments import checked_count, checked_object, checked_path, checked_samples
from deltaai.errors import Setting, TrainingError
from deltaai.io import ImageSet, binarised
from deltaai.learning.image_learner import checked_end, progress_of, rate_at
from deltaai.learning.vae.config import AutoencoderConfig
from deltaai.learning.vae.networks import ResidualNetwork
from deltaai.optimizers import Adam
from deltaai.randomness import generator_of, integers
from deltaai.training import read_state, write_state

_KIND = "autoencoder"
_ROWS_AT_ONCE = 4096  # of the decoder, when nothing is learned: bounds the memory
_GREY = 0.01  # pixels that are never on in the data begin with this probability


class VariationalAutoencoder:
    """The baseline without a graph; an :class:`~deltaai.learning.ImageLearner`.

    Parameters
    ----------
    images : what it learns from; it lives on their device.
    config : its settings.
    seed : of the initial weights, and of all that is drawn while it learns.

    Examples
    --------
    >>> from deltaai.io import read_digits
    >>> small = AutoencoderConfig(num_latents=4, hidden=16, depth=1)
    >>> learner = VariationalAutoencoder(read_digits(), small, seed=0)
    >>> learner.run(updates=3)
    >>> learner.num_updates, learner.sample(2, None).shape
    (3, torch.Size([2, 64]))
    """

    def __init__(
        self, images: ImageSet, config: AutoencoderConfig | None = None, seed: int = 0
    ) -> None:
        self.images = checked_object("images", images, ImageSet, "take that of image_set")
        self.config = config = AutoencoderConfig() if config is None else config
        self.generator = generator_of(seed)
        device, layers = images.train.device, (config.hidden, config.depth)
        self.encoder = ResidualNetwork(
            images.num_pixels, 2 * config.num_latents, *layers, self.generator, device
        )
        self.decoder = ResidualNetwork(
            config.num_latents, images.num_pixels, *layers, self.generator, device
        )
        with torch.no_grad():
            grey = images.train.mean(0).clamp(_GREY, 1 - _GREY)
            self.decoder.bias.copy_(grey.logit())
        self.trained = nn.ModuleDict({"encoder": self.encoder, "decoder": self.decoder})
        self.optimizer = Adam(self.trained.parameters(), lr=config.learning_rate)
        self.num_updates, self.seconds = 0, 0.0
        self.clock: Callable[[], float] = time.perf_counter
        self._identity = {"images": images.name, "number": len(images.train), "seed": seed}

    @property
    def num_parameters(self) -> Mapping[str, int]:
        """Parameters of the decoder, which is p, and of the encoder, which is q."""
        return {
            "p": sum(value.numel() for value in self.decoder.parameters()),
            "q": sum(value.numel() for value in self.encoder.parameters()),
        }

    def run(self, *, seconds: float | int | None = None, updates: int | None = None) -> None:
        """Train on until the clock or the updates say so, or the budget is spent."""
        budget = (self.config.seconds, self.config.updates)
        end = checked_end(seconds, updates, budget)
        started = self.clock() - self.seconds
        while progress_of(self, end) < 1:
            self._update(self.config.learning_rate * rate_at(progress_of(self, budget)))
            self.num_updates += 1
            self.seconds = self.clock() - started

    def _update(self, learning_rate: float) -> None:
        train = self.images.train
        chosen = integers(len(train), (self.config.batch_size,), self.generator, train.device)
        batch = binarised(train[chosen], self.generator)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        with torch.enable_grad():
            loss = -self._lower_bound(batch).mean()
            if not math.isfinite(float(loss.detach())):
                raise TrainingError(
                    f"the loss is {float(loss.detach())} after {self.num_updates} updates: lower ",
                    Setting("learning_rate"),
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _lower_bound(self, batch: Float[Tensor, "batch pixel"]) -> Float[Tensor, "batch"]:
        mean, log_scale = self._posterior(batch)
        latents = mean + log_scale.exp() * self._noise(mean.shape, self.generator)
        divergence = 0.5 * (mean.square() + (2 * log_scale).exp() - 1).sum(1) - log_scale.sum(1)
        return _log_bernoulli(self.decoder(latents), batch) - divergence

    def _posterior(
        self, batch: Float[Tensor, "batch pixel"]
    ) -> tuple[Float[Tensor, "batch latent"], Float[Tensor, "batch latent"]]:
        """Means and log-scales of the latents."""
        mean, log_scale = self.encoder(batch).chunk(2, dim=1)
        return mean, log_scale

    def _noise(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        where = self.images.train.device if generator is None else generator.device
        drawn = torch.randn(shape, generator=generator, dtype=torch.float32, device=where)
        return drawn.to(self.images.train.device)

    @torch.no_grad()
    def log_weights(
        self,
        images: Float[Tensor, "batch pixel"],
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "sample batch"]:
        """Give log p(x, h) - log q(h | x) of latents drawn for each image of zeros and ones."""
        checked_samples(num_samples)
        mean, log_scale = self._posterior(images)
        at_once = max(_ROWS_AT_ONCE // len(images), 1)
        parts = []
        for start in range(0, num_samples, at_once):
            number = min(at_once, num_samples - start)
            noise = self._noise(torch.Size((number, *mean.shape)), generator)
            latents = mean + log_scale.exp() * noise
            # The normalisers of both Gaussians are the same, but for the scales of q.
            log_ratio = 0.5 * (noise.square() - latents.square()).sum(2) + log_scale.sum(1)
            logits = self.decoder(latents.flatten(0, 1)).view(number, *images.shape)
            parts.append(_log_bernoulli(logits, images.expand_as(logits)) + log_ratio)
        return torch.cat(parts)

    @torch.no_grad()
    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number pixel"]:
        """Probabilities of the pixels of new images."""
        size = torch.Size((checked_count("number", number, 1), self.config.num_latents))
        drawn: Tensor = self.decoder(self._noise(size, generator))
        return drawn.sigmoid()

    @torch.no_grad()
    def reconstruct(
        self, images: Float[Tensor, "batch pixel"], generator: torch.Generator | None
    ) -> Float[Tensor, "batch pixel"]:
        """Probabilities of the pixels given latents drawn for each image."""
        mean, log_scale = self._posterior(images)
        latents = mean + log_scale.exp() * self._noise(mean.shape, generator)
        drawn: Tensor = self.decoder(latents)
        return drawn.sigmoid()

    def save(self, path: str | Path) -> None:
        """Write all that the rest of the run depends on."""
        state = {
            "trained": dict(self.trained.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "num_updates": self.num_updates,
            "seconds": self.seconds,
        }
        write_state(checked_path(path), _KIND, self._identity, self.config.to_dict(), state)

    def restore(self, path: str | Path) -> None:
        """Go on where a run of the same images, settings and seed was saved."""
        read_state(
            checked_path(path),
            _KIND,
            self._identity,
            self.config.to_dict(),
            free=(),
            others="other images or another seed",
            restore=self._take_up,
        )

    def _take_up(self, state: Mapping[str, Any]) -> None:
        num_updates, seconds = int(state["num_updates"]), float(state["seconds"])
        if num_updates < 0 or not seconds >= 0:
            raise ValueError(f"{num_updates} updates after {seconds} seconds")
        self.trained.load_state_dict(state["trained"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.num_updates, self.seconds = num_updates, seconds


def _log_bernoulli(
    logits: Float[Tensor, "*image pixel"], pixels: Float[Tensor, "*image pixel"]
) -> Float[Tensor, "*image"]:
    """Log-probability of pixels that are 0 or 1."""
    apart = functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none")
    return -apart.sum(-1)
