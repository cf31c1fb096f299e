"""A q that follows p: trained a little, with the local Delta objective, whenever p has moved.

q's objective reads p live (:class:`~deltaai.models.Target`), and its logits contain p's own
log-factors, so that most of a move of p is known to q before any update. The training loop is that
of ``fit`` (:class:`~deltaai.training.Trainer`); here it is only told how far to go. With incomplete
rows it is trained given what they show, and one q serves both phases of a gradient: then half of
its columns have no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from deltaai.fitting import (
    EvidenceFor,
    SamplerSpec,
    columns_at_once,
    suitable_config,
    suitable_graph,
    suitable_hidden,
)
from deltaai.learning.likelihood.fillings import Fillings
from deltaai.learning.likelihood.gradients import GradientSettings
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.learning.likelihood.shown_cells import ShownCells
from deltaai.learning.missing_islands import island_labels
from deltaai.models import Columns, FactorGraph, Target
from deltaai.sampling import ON_POLICY, DataValues, Given, Source, sample_with_conditionals
from deltaai.threads import limited_threads
from deltaai.training import Trainer, phases_of

_LEAST_HIDDEN = 16
_EMPTY_SHARE = 0.5  # of columns, without evidence, where q serves both phases


class Follower:
    """q for a moving p, and what it draws with their log weights.

    Parameters
    ----------
    model : p, which somebody moves.
    rows : whose missing cells q is to fill in.
    settings : how q is trained.
    empty_share : share of the columns that q is trained at without evidence, if rows give some.
    smoothing : what zeros of p are floored at where q is trained; weights know them.
    """

    def __init__(
        self,
        model: FactorGraph,
        rows: LearningRows,
        settings: GradientSettings,
        empty_share: float = _EMPTY_SHARE,
        smoothing: float | None = None,
    ) -> None:
        evidence, values = None, None
        if rows.has_missing:
            evidence = ShownCells(empty_share)
            values = DataValues(rows.states[~rows.is_complete])
        hidden = max(suitable_hidden(model, "local"), _LEAST_HIDDEN)
        shown: EvidenceFor = None if evidence is None else "any"
        spec = SamplerSpec(hidden=hidden, evidence=shown, smoothing=smoothing)
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
        self.model, self.proposal = model, proposal
        self._graph = model.markov_graph()
        # Rows say what is observed, and as what; the rest of a column is q's.
        self.source = Source(proposal, orders, evidence, values, values_share=0.0)
        self.trainer = Trainer(phases_of(config, self.source), config)
        self.source.redraw(self.trainer.rng)

    def follow(self, num_updates: int) -> None:
        """Train q for p as it is."""
        with torch.enable_grad(), limited_threads(1):
            self.trainer.advance(num_updates)

    def show(self, rows: Int[Tensor, "row var"]) -> None:
        """Train q given what these rows show from now on; they must have missing cells."""
        self.source.values = DataValues(rows)

    def draw(
        self, num_samples: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "sample var"], Float64[Tensor, "sample"]]:
        """States of q without evidence, and their log weights, log p~(x) - log q(x)."""
        with limited_threads(1):
            columns, log_q = self.source.usual(self.proposal, num_samples, generator)
        return self._weighted(columns, log_q)

    def fill(self, rows: Int[Tensor, "row var"], each: int, generator: torch.Generator) -> Fillings:
        """Fill each row in several times, weighted by p as it is."""
        labels = island_labels((rows < 0).cpu().numpy(), self._graph)
        num_rows, num_variables = rows.shape
        at_once = max(columns_at_once(self.proposal.layout) // each, 1)
        parts = [self._drawn(part, each, generator) for part in torch.split(rows, at_once)]
        states, log_q = (torch.cat(some, 1).T for some in zip(*parts, strict=True))
        shape = (num_rows, each, num_variables)
        with torch.no_grad():
            return Fillings.of(
                Target(self.model).now(torch.float64),
                states.reshape(shape),
                log_q.double().reshape(shape),
                torch.from_numpy(labels).to(rows.device, torch.long),
            )

    def _drawn(
        self, rows: Int[Tensor, "row var"], each: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var filling"], Float[Tensor, "var filling"]]:
        """States with the missing cells filled in, and log q of each cell that was."""
        assert self.source.schedule is not None
        columns = rows.repeat_interleave(each, 0).T.contiguous()
        observed = columns >= 0
        given = Given(columns.clamp(min=0), observed, self.source.known(observed))
        with limited_threads(1):
            drawn, log_q = sample_with_conditionals(
                self.proposal,
                self.source.schedule,
                columns.shape[1],
                policy=ON_POLICY,
                generator=generator,
                given=given,
            )
        return drawn.flatten(1), log_q.flatten(1)

    def _weighted(
        self, columns: Columns, log_q: Tensor
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
