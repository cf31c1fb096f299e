"""Mean-field: latents independent given the row, by the gradient of the evidence lower bound.

With q(h | x) = Π_u σ(η_u)^{h_u} (1 - σ(η_u))^{1-h_u}, the derivative of the bound is local:

    ∂/∂η_u E_q[log p(h, x) - log q(h)]
        = σ'(η_u) (E_q[log p(h_u=1, h_-u, x) - log p(h_u=0, h_-u, x)] - η_u)

so one draw with each latent changed in turn estimates it without bias, for all u at once, from the
same log-ratios of p that the local objective needs.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.learning.em.steps.base import Draws
from deltaai.learning.em.steps.by_objective import DrawnStep


class MeanFieldStep(DrawnStep):
    """Ascends the evidence lower bound of independent latents."""

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """A number whose gradient is that of the negative bound, in expectation."""
        posterior, paths = (
            self.parts.posterior,
            draws.paths.first(self.parts.config.posterior_batch),
        )
        assert paths.context is not None
        columns = paths.columns
        context = posterior.context_of(paths.context)
        rows = posterior.conditionals.logits(posterior.features(columns), None, context)
        logits = rows[posterior.layout.first_row_of]
        with torch.no_grad():
            ratio = self.parts.model.log_ratios(columns, 1 - columns, paths.context)
            odds = ratio * (2 * columns - 1)  # log p with one over log p with zero
            slope = logits.sigmoid() * (1 - logits.sigmoid()) * (odds - logits)
        return -(slope * logits).sum(0).mean()
