"""Partial inference: the local objective on a latent and its Markov blanket, and p local, too.

For some latents u an I-map of u and its neighbours is drawn, each with rows of its own. q fills in
nothing else, its residual at u needs nothing else (:mod:`deltaai.objectives.sub_dag`), and p learns
from the terms that are complete there: the conditional of u, and those of the observed variables
below u, which count 1 / (number of their parents) as each parent's turn comes (draws are those of q
itself, since p learns from all of them):

    E[ Σ_u log p(h_u | h_Pa) + Σ_{i below u} log p(x_i | h_Pa(i)) / |Pa(i)| ] = E[log p(h, x)]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Context
from deltaai.errors import ConfigError, Setting
from deltaai.learning.em.latent_model import Rows
from deltaai.learning.em.steps.base import Batch, EStep, Parts
from deltaai.learning.em.terms import Columns, TermsAround
from deltaai.objectives import (
    SubDagPlan,
    SubDagPlanner,
    prepare_sub_dags,
    propose_centres,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.sampling import ON_POLICY


@dataclass(frozen=True, eq=False)
class PartialDraws:
    """Latents around some centres, each with rows of its own.

    Parameters
    ----------
    states : values of the cells of the plan.
    rows : those of the first centre, then those of the second, and so on.
    columns : all variables in the rows of each centre; latents that are not there are zero.
    """

    states: Int[Tensor, "cell sample"]
    rows: Rows
    columns: Columns


class PartialStep(EStep[PartialDraws]):
    """Residuals of centres on their sub-DAGs."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        if parts.orders.kind != "many":
            raise ConfigError(
                "partial inference draws an order for every latent: choose ",
                Setting("orders", "many"),
            )
        self._planner = SubDagPlanner(parts.posterior, parts.orders.graph)
        structure = parts.model.structure
        self.num_centres = min(structure.num_latents, parts.config.batch)
        self.each = max(parts.config.batch // structure.num_latents, 1)
        # What a term of each observed variable counts: it is met once for every parent.
        shares = [1 / max(len(parents), 1) for parents in structure.parents]
        self._shares = torch.tensor(
            [1.0] * structure.num_latents + shares,
            dtype=torch.float32,
            device=parts.posterior.device,
        )
        self.redraw(0)

    def redraw(self, seed: int) -> None:
        """Take new centres and new sub-DAGs."""
        rng, model = np.random.default_rng(seed), self.parts.model
        chosen = rng.permutation(model.structure.num_latents)[: self.num_centres]
        self.centres = sorted(chosen.tolist())
        self.plan: SubDagPlan = self._planner.draw(self.centres, rng)
        self._terms = [TermsAround(part, self.centres) for part in (model.prior, model.likelihood)]

    def draw(self, batch: Batch, generator: torch.Generator) -> PartialDraws:
        """Draw each centre and its neighbours for rows of its own."""
        rows = batch.rows[: self.num_centres * self.each]
        with torch.no_grad():
            states = sample_sub_dags(
                self.parts.posterior,
                self.plan,
                self.each,
                policy=ON_POLICY,
                generator=generator,
                context=self._context(rows),
            )
        return PartialDraws(states, rows, self._columns(states, rows))

    def loss(self, draws: PartialDraws, generator: torch.Generator) -> Float[Tensor, ""]:
        """Mean squared residual of the centres."""
        posterior = self.parts.posterior
        others = propose_centres(posterior, self.plan, draws.states, generator)
        changed = draws.columns.clone()
        items = torch.arange(len(self.centres), device=others.device)
        centres = torch.tensor(self.centres, dtype=torch.long, device=others.device)
        changed[centres, items] = others
        with torch.no_grad():
            log_ratio = self._log_sums(draws.columns) - self._log_sums(changed)
        batch = prepare_sub_dags(posterior, self.plan, draws.states, others, log_ratio)
        residuals = sub_dag_residuals(posterior, self.plan, batch, self._context(draws.rows))
        return residuals.square().mean()

    def model_loss(self, draws: PartialDraws) -> Float[Tensor, ""]:
        """Less the terms that are complete around each centre, as an estimate of all."""
        among, below = self._terms
        total = torch.zeros((), dtype=torch.float64, device=draws.rows.device)
        num_latents = self.parts.model.structure.num_latents
        for terms, kind in ((among, among.own), (below, below.below)):
            columns = draws.columns[:num_latents] if terms is among else draws.columns
            for pairs in kind:
                shares = self._shares[pairs.variables][:, None]
                total = total + (shares * terms.log_densities(pairs, columns)).double().sum()
        # Every latent counts once, though only some were centres.
        return -total * num_latents / (self.num_centres * self.each)

    def _log_sums(self, columns: Columns) -> Float[Tensor, "item sample"]:
        among, below = self._terms
        num_latents = self.parts.model.structure.num_latents
        return among.log_sums(columns[:num_latents]) + below.log_sums(columns)

    def _context(self, rows: Rows) -> Context | None:
        return self.parts.posterior.context_of(rows)

    def _columns(self, states: Int[Tensor, "cell sample"], rows: Rows) -> Columns:
        shape = (self.num_centres, self.each)
        latents = states.new_zeros(self.parts.model.structure.num_latents, *shape)
        latents[self.plan.variables, self.plan.sub_dags] = states
        return torch.cat((latents, rows.T.to(states.dtype).view(-1, *shape)))
