"""A q that follows p: trained a little, with the local Delta objective, whenever p has moved.

q's objective reads p live (:class:`~deltaai.models.Target`), and its logits contain p's own
log-factors, so that most of a move of p is known to q before any update. The training loop is that
of ``fit`` (:class:`~deltaai.training.Trainer`); here it is only told how far to go. With incomplete
rows one q serves both phases: it is trained for no evidence and for the patterns of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.fitting import SamplerSpec, suitable_config, suitable_graph, suitable_hidden
from deltaai.learning.likelihood.gradients import GradientSettings
from deltaai.learning.likelihood.row_patterns import RowPatterns
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph
from deltaai.sampling import ON_POLICY, Given, Source, sample_ancestrally
from deltaai.threads import limited_threads
from deltaai.training import Trainer, phases_of

_LEAST_HIDDEN = 16


class Follower:
    """q for a moving p, and what it draws with their log weights.

    Parameters
    ----------
    model : p, which somebody moves.
    rows : whose missing cells q is to fill in.
    settings : how q is trained.
    """

    def __init__(self, model: FactorGraph, rows: LearningRows, settings: GradientSettings) -> None:
        evidence = RowPatterns(rows.states[~rows.is_complete] >= 0) if rows.has_missing else None
        hidden = max(suitable_hidden(model, "local"), _LEAST_HIDDEN)
        spec = SamplerSpec(hidden=hidden, evidence=None if evidence is None else "any")
        proposal, orders = spec.build(model, suitable_graph(model), seed=settings.seed)
        config = suitable_config(
            model,
            proposal.layout,
            hidden,
            spec.family,
            is_many=False,
            seed=settings.seed,
            steps=settings.q_warmup + settings.steps * settings.q_updates,
            polish_steps=0,
            anneal_steps=0,
            anneal_start=0.1,
            evaluate_every=0,
            target_ess=None,
        )
        self.proposal = proposal
        self.source = Source(proposal, orders, evidence)
        self.trainer = Trainer(phases_of(config, self.source), config)
        self.source.redraw(self.trainer.rng)

    def follow(self, num_updates: int) -> None:
        """Train q for p as it is."""
        with torch.enable_grad(), limited_threads(1):
            self.trainer.advance(num_updates)

    def draw(
        self, num_samples: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "sample var"], Float64[Tensor, "sample"]]:
        """States of q without evidence, and their log weights, log p~(x) - log q(x)."""
        with limited_threads(1):
            columns, log_q = self.source.usual(self.proposal, num_samples, generator)
        return self._weighted(columns, log_q)

    def fill(
        self, rows: Int[Tensor, "row var"], each: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "filling var"], Float64[Tensor, "filling"]]:
        """Fill each row in several times; fillings of a row stand side by side."""
        assert self.source.schedule is not None
        columns = rows.repeat_interleave(each, 0).T.contiguous()
        observed = columns >= 0
        given = Given(columns.clamp(min=0), observed, self.source.known(observed))
        with limited_threads(1):
            drawn, log_q = sample_ancestrally(
                self.proposal,
                self.source.schedule,
                columns.shape[1],
                policy=ON_POLICY,
                generator=generator,
                given=given,
            )
        return self._weighted(drawn.flatten(1), log_q.flatten())

    def _weighted(
        self, columns: Int[Tensor, "var batch"], log_q: Tensor
    ) -> tuple[Int[Tensor, "batch var"], Float64[Tensor, "batch"]]:
        states = columns.T.contiguous()
        with torch.no_grad():
            return states, self.proposal.scorer.log_score(states) - log_q.double()

    def state(self) -> dict[str, Any]:
        """Where q and its training stand."""
        return self.trainer.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        self.trainer.restore(state)
