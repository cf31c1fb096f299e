"""The E-step without error: every state of the latents, weighed by its posterior probability.

For a handful of latents only. It is what the other E-steps are judged by: its M-step follows the
gradient of the likelihood itself. q learns from one draw of the posterior for each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.learning.em.latent_model import Latents, Rows
from deltaai.learning.em.steps.base import Batch, Draws, Parts
from deltaai.learning.em.steps.sleep import LikelihoodStep
from deltaai.randomness import uniform

_MOST_LATENTS = 14


@dataclass(frozen=True, eq=False)
class ExactDraws(Draws):
    """Draws of the posterior, and the posterior itself.

    Parameters
    ----------
    posterior : probability of every state of the latents, for each row.
    rows : the rows.
    """

    posterior: Float[Tensor, "batch state"]
    rows: Rows


class ExactStep(LikelihoodStep):
    """All states of the latents, by their weights."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        num_latents = parts.model.structure.num_latents
        if num_latents > _MOST_LATENTS:
            raise ConfigError(
                f"there are {num_latents} latents: all their states can be weighed up to "
                f"{_MOST_LATENTS}; choose another method"
            )
        places = torch.arange(num_latents, device=parts.posterior.device)
        numbers = torch.arange(2**num_latents, device=places.device)
        self.states: Latents = (numbers >> places[:, None]) & 1

    def draw(self, batch: Batch, generator: torch.Generator) -> ExactDraws:
        """The posterior of each row, and a draw of it."""
        with torch.no_grad():
            posterior = self.parts.model.log_joints(self.states, batch.rows).softmax(1)
        chance = uniform(
            (len(posterior), 1), generator, dtype=posterior.dtype, device=posterior.device
        )
        reached = (posterior.cumsum(1) < chance).sum(1).clamp(max=posterior.shape[1] - 1)
        drawn = Draws.even(self.paths_of(self.states[:, reached], batch.rows))
        return ExactDraws(drawn.paths, drawn.weights, posterior, batch.rows)

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Less the mean log q of the draws."""
        return -self.log_posterior(draws.paths).mean()

    def model_loss(self, draws: Draws) -> Float[Tensor, ""]:
        """Less the mean log p(h, x) under the posterior."""
        assert isinstance(draws, ExactDraws)
        log_joints = self.parts.model.log_joints(self.states, draws.rows)
        return -(draws.posterior * log_joints).sum(1).mean()
