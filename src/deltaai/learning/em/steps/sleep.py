"""Sleep: q learns to explain what p dreams (wake-sleep).

    loss = -log q(h | x),   (h, x) ~ p

The wake phase is the M-step on draws of q for the data. It needs a p that can be drawn from.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.io import binarised
from deltaai.learning.em.latent_model import Latents, Rows
from deltaai.learning.em.steps.base import Draws
from deltaai.learning.em.steps.by_objective import DrawnStep
from deltaai.sampling import Paths


class LikelihoodStep(DrawnStep):
    """q learns by likelihood from pairs of latents and rows."""

    def log_posterior(self, paths: Paths) -> Float[Tensor, "batch"]:
        """Log q(h | x) of each column."""
        posterior = self.parts.posterior
        context = posterior.context_of(paths.context)
        return posterior.log_prob(paths.columns, paths.known, context=context)

    def paths_of(self, latents: Latents, rows: Rows) -> Paths:
        """Latents and rows from elsewhere, in the orders in use."""
        whole = latents.shape[1] - latents.shape[1] % len(self.source.dags)
        return self.source.paths(latents[:, :whole], context=rows[:whole])


class SleepStep(LikelihoodStep):
    """q learns from draws of p."""

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Less the mean log q of what p draws; the draws for the data are not looked at."""
        model, config = self.parts.model, self.parts.config
        latents = model.draw(config.batch, generator)
        dreamt = self.paths_of(latents, binarised(model.means(latents), generator))
        return -self.log_posterior(dreamt).mean()
