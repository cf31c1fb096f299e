"""Gibbs sampling of the posterior: chains, one for every row of the data, and no amortised E-step.

A sweep draws one latent after the other from p(h_u | all else) ∝ p(h, x), which needs the
conditionals of u, of its children and of the observed variables below it, at both values of u. The
chain of a row goes on where it was when the row was last seen. So that p can be judged as the
others are, q learns from the chains by likelihood; p never sees what q draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.learning.em.latent_model import Latents, Rows
from deltaai.learning.em.steps.base import Batch, Draws, Parts
from deltaai.learning.em.steps.sleep import LikelihoodStep
from deltaai.learning.em.terms import TermsAround
from deltaai.randomness import integers, uniform


class GibbsStep(LikelihoodStep):
    """Latents come from chains of the posterior."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        model, device = parts.model, parts.posterior.device
        shape = (parts.num_rows, model.structure.num_latents)
        # A byte a latent: there is a chain for every row.
        self.chains = integers(2, shape, parts.generator, device).to(torch.uint8)
        self._around = [
            (TermsAround(model.prior, [u]), TermsAround(model.likelihood, [u]))
            for u in range(model.structure.num_latents)
        ]

    def draw(self, batch: Batch, generator: torch.Generator) -> Draws:
        """Sweep the chains of some rows."""
        latents = self.chains[batch.numbers].T.long().contiguous()
        for _ in range(self.parts.config.gibbs_sweeps):
            self.sweep(latents, batch.rows, generator)
        self.chains[batch.numbers] = latents.T.to(torch.uint8)
        return Draws.even(self.paths_of(latents, batch.rows))

    @torch.no_grad()
    def sweep(self, latents: Latents, rows: Rows, generator: torch.Generator | None) -> None:
        """Draw every latent once given all others, in place."""
        num_latents, batch = latents.shape
        columns = torch.cat((latents, rows.T.long())).repeat(1, 2)[:, None]
        chance = uniform(latents.shape, generator, dtype=torch.float32, device=latents.device)
        for u, (among, below) in enumerate(self._around):
            columns[u, 0, :batch], columns[u, 0, batch:] = 1, 0
            found = (among.log_sums(columns[:num_latents]) + below.log_sums(columns))[0]
            drawn = chance[u] < (found[:batch] - found[batch:]).sigmoid()
            latents[u] = drawn
            columns[u, 0] = drawn.repeat(2)

    def loss(self, draws: Draws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Less the mean log q of the chains' states."""
        return -self.log_posterior(draws.paths).mean()

    def state(self) -> dict[str, Any]:
        """The chains."""
        return {"chains": self.chains}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the chains back."""
        self.chains = state["chains"].clone()
