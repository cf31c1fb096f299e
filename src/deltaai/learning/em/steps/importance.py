"""Importance-weighted E-step: q learns from its own draws by their weights.

Also known as reweighted wake-sleep.

For each row K draws h_k ~ q with weights w_k ∝ p(h_k, x) / q(h_k | x), which sum to one:

    loss = -Σ_k w_k log q(h_k | x),      and p learns at the same draws by the same weights.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.learning.em.steps.base import Batch, Draws
from deltaai.learning.em.steps.sleep import LikelihoodStep
from deltaai.sampling import ON_POLICY


class ImportanceStep(LikelihoodStep):
    """q learns from weighted draws of q; there are K times fewer rows in a batch."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Draws:
        """Draw several latents for each of some rows, and weigh them."""
        each, num_orders = self.parts.config.importance_samples, len(self.source.dags)
        number = max(len(batch.rows) // each // num_orders, 1) * num_orders
        rows = batch.rows[:number].repeat_interleave(each, dim=0)
        posterior = self.parts.posterior
        paths = self.source.draw(posterior, len(rows), ON_POLICY, generator, context=rows)
        with torch.no_grad():
            log_p = self.parts.model.log_joint(paths.columns, rows)
            log_weights = (log_p - self.log_posterior(paths).double()).view(number, each)
        return Draws(paths, log_weights.softmax(1).flatten() / number)

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Less the weighted mean of log q."""
        return -(draws.weights * self.log_posterior(draws.paths).double()).sum()
