"""Where training states come from: orders x evidence x values, as one value (``Paths``).

- orders: one, or random ones that are drawn anew now and then;
- evidence: none, a fixed set of variables, or any;
- values: q under a policy, data, Markov chains, or a mixture with q.

Every objective takes what comes out, so any of them trains with any of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Num
from torch import Tensor

from deltaai.conditionals import Observed, Proposal, known_given, known_under
from deltaai.graphs import Dag
from deltaai.models import Columns
from deltaai.randomness import uniform
from deltaai.sampling.ancestral import sample_ancestrally
from deltaai.sampling.evidence import EvidenceKind, FixedEvidence
from deltaai.sampling.levels import Schedule
from deltaai.sampling.orders import Orders
from deltaai.sampling.paths import Given, Paths
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.sampling.values import ChainValues, Values

_MOST_KNOWN = 2**24  # entries of what is known, of states that are judged at once
_UNIFORM_SHARE = 0.25  # of columns, with evidence that q would not draw


class Source:
    """Draws full states along orders, given evidence.

    Parameters
    ----------
    proposal : q.
    orders : one order or many.
    evidence : which variables are observed; ``None`` for none.
    values : where full states come from, if not from q.
    values_share : share of the columns that they make up; q draws the others.
    """

    def __init__(
        self,
        proposal: Proposal,
        orders: Orders,
        evidence: EvidenceKind | None = None,
        values: Values | None = None,
        values_share: float | int = 1.0,
    ) -> None:
        self.proposal, self.orders, self.evidence = proposal, orders, evidence
        self.values, self.values_share = values, values_share
        # q has no conditionals of variables that are observed every time.
        self._likely = ChainValues() if isinstance(evidence, FixedEvidence) else None
        self.dags: tuple[Dag, ...] = ()
        self.schedule: Schedule | None = None

    # -- orders --------------------------------------------------------------------------------

    def redraw(self, rng: np.random.Generator) -> bool:
        """Draw new orders; say whether there are any that were not there before."""
        if self.orders.kind == "one" and self.dags:
            return False
        self.set_orders(self.orders.draw(rng))
        return True

    def set_orders(self, dags: Sequence[Dag]) -> None:
        """Take these orders."""
        layout, is_many = self.proposal.layout, self.orders.kind == "many"
        is_given = self.evidence is not None
        self.dags = tuple(dags)
        self.schedule = Schedule.build(self.proposal, dags, masks=is_many, is_given=is_given)
        self._before = None
        if is_many or is_given:
            self._before = known_under(layout, dags, self.proposal.dtype)

    # -- states --------------------------------------------------------------------------------

    def draw(
        self,
        proposal: Proposal,
        size: int,
        policy: Policy,
        generator: torch.Generator,
        *,
        each_evidence: int = 1,
        context: Float[Tensor, "batch *feature"] | None = None,
        candidates: int = 1,
    ) -> Paths:
        """Draw about so many states, equally many for each order.

        Parameters
        ----------
        proposal : q, at the temperature to draw at.
        policy : how q draws.
        each_evidence : how many columns in a row are to share their evidence.
        context : what else is given, a row for each column, if q sees that; not with evidence.
        candidates : how many states are drawn for each that is kept, one chosen by its weight p/q;
            not with evidence, or where states come from elsewhere.
        """
        each = max(size // len(self.dags), 1)
        each = -(-each // each_evidence) * each_evidence
        if self.evidence is None:
            if candidates > 1:
                columns = self._chosen(proposal, each, policy, generator, context, candidates)
            else:
                columns = self._values(proposal, each, policy, None, generator, context)
            return self.paths(columns, context=context)
        likely = self._evidence_values(proposal, each, generator)
        observed = self.evidence.choose(likely, generator)
        if each_evidence > 1:
            likely, observed = (
                part[:, ::each_evidence].repeat_interleave(each_evidence, dim=1)
                for part in (likely, observed)
            )
        given = Given(likely, observed, self.known(observed))
        columns = self._values(proposal, each, policy, given, generator)
        return self.paths(columns, observed, each_evidence)

    def paths(
        self,
        columns: Columns,
        observed: Observed | None = None,
        each_evidence: int = 1,
        context: Float[Tensor, "batch *feature"] | None = None,
    ) -> Paths:
        """States of the orders in use, and what each of their variables sees."""
        known = self.known(observed, columns.shape[1])
        return Paths(columns, self.dags, known, observed, context, each_evidence)

    def usual(
        self, proposal: Proposal, num_samples: int, generator: torch.Generator
    ) -> tuple[Columns, Float[Tensor, "batch"]]:
        """States by q as it is, given the evidence that it is judged with; also their log q."""
        each, column = max(num_samples // len(self.dags), 1), None
        if self.evidence is not None:
            column = self._one_evidence(proposal, generator)
        at_once = each
        if self._before is not None:  # what is known takes far more memory than the states
            at_once = min(max(_MOST_KNOWN // max(self._before.numel(), 1), 1), each)
        pieces = [
            self._usual_piece(proposal, min(at_once, each - start), column, generator)
            for start in range(0, each, at_once)
        ]
        columns, log_q = zip(*pieces, strict=True)
        return torch.cat(columns, dim=1), torch.cat(log_q)

    def _usual_piece(
        self,
        proposal: Proposal,
        each: int,
        column: Num[Tensor, "var 1"] | None,
        generator: torch.Generator,
    ) -> tuple[Columns, Float[Tensor, "batch"]]:
        """Some of these states for each order."""
        assert self.schedule is not None
        given = None
        if self.evidence is not None and column is not None:
            columns = column.expand(-1, each * len(self.dags))
            observed = self.evidence.usual(columns)
            given = Given(columns, observed, self.known(observed))
        drawn, log_q = sample_ancestrally(
            proposal, self.schedule, each, policy=ON_POLICY, generator=generator, given=given
        )
        return drawn.flatten(1), log_q.flatten()

    def known(
        self, observed: Observed | None, batch: int = 0
    ) -> Float[Tensor, "slot batch"] | None:
        """What each conditional sees in each column."""
        if self._before is None:
            return None
        batch = batch if observed is None else observed.shape[1]
        before = self._before.repeat_interleave(batch // len(self.dags), dim=1)
        return before if observed is None else known_given(self.proposal.layout, before, observed)

    def _values(
        self,
        proposal: Proposal,
        each: int,
        policy: Policy,
        given: Given | None,
        generator: torch.Generator,
        context: Float[Tensor, "batch *feature"] | None = None,
    ) -> Columns:
        """Full states: those of q, given the evidence, or those that the evidence was taken of."""
        assert self.schedule is not None
        from_elsewhere = None
        if self.values is not None:
            from_elsewhere = (
                self.values.draw(proposal, each * len(self.dags), generator)
                if given is None
                else given.columns
            )
            if self.values_share >= 1:
                return from_elsewhere
        with torch.no_grad():
            seen = proposal.context_of(context)
        columns, _ = sample_ancestrally(
            proposal,
            self.schedule,
            each,
            policy=policy,
            generator=generator,
            given=given,
            context=seen,
            is_evaluated=False,
        )
        drawn = columns.flatten(1)
        if from_elsewhere is None:
            return drawn
        chance = uniform(drawn.shape[1:], generator, dtype=torch.float32, device=drawn.device)
        return from_elsewhere.where(chance < self.values_share, drawn)

    @torch.no_grad()
    def _chosen(
        self,
        proposal: Proposal,
        each: int,
        policy: Policy,
        generator: torch.Generator,
        context: Float[Tensor, "batch *feature"] | None,
        candidates: int,
    ) -> Columns:
        """Full states of q, each one of several, by weight; the first one where it is tempered."""
        assert self.schedule is not None
        num_tempered = policy.num_tempered or 0
        seen = proposal.context_of(context)
        columns, log_q = sample_ancestrally(
            proposal,
            self.schedule,
            each * candidates,
            policy=replace(policy, num_tempered=num_tempered * candidates),
            generator=generator,
            context=None if seen is None else seen.repeated(candidates),
        )
        given = None if context is None else context.repeat_interleave(candidates, dim=0)
        log_p = proposal.target.log_scores(columns.flatten(1), given)
        log_weights = (log_p - log_q.flatten()).view(-1, candidates)
        choice = torch.multinomial(log_weights.softmax(1), 1, generator=generator)[:, 0]
        choice.view(-1, each)[:, :num_tempered] = 0
        at = torch.arange(len(choice), device=choice.device) * candidates + choice
        return columns.flatten(1).index_select(1, at)

    def _evidence_values(
        self, proposal: Proposal, each: int, generator: torch.Generator
    ) -> Columns:
        """Likely states that evidence is taken of; in a share of the columns, uniform ones."""
        batch = each * len(self.dags)
        if self.values is not None:
            return self.values.draw(proposal, batch, generator)
        if self._likely is not None:
            columns = self._likely.draw(proposal, batch, generator)
        else:
            columns = self._unconditional(proposal, each, generator)
        device = columns.device
        if proposal.layout.is_discrete:
            num_states = proposal.model.num_states
            chance = uniform(columns.shape, generator, dtype=torch.float32, device=device)
            anything = (chance * num_states[:, None]).long()
        else:
            anything = proposal.anything(batch, generator)
        chance = uniform((batch,), generator, dtype=torch.float32, device=device)
        return anything.where(chance < _UNIFORM_SHARE, columns)

    def _unconditional(self, proposal: Proposal, each: int, generator: torch.Generator) -> Columns:
        """States of q without evidence."""
        assert self.schedule is not None
        shape = (proposal.layout.num_variables, each * len(self.dags))
        nothing = torch.zeros(shape, dtype=torch.bool, device=proposal.device)
        given = Given(nothing.to(proposal.value_dtype), nothing, self.known(nothing))
        columns, _ = sample_ancestrally(
            proposal,
            self.schedule,
            each,
            policy=ON_POLICY,
            generator=generator,
            given=given,
            is_evaluated=False,
        )
        return columns.flatten(1)

    def _one_evidence(self, proposal: Proposal, generator: torch.Generator) -> Num[Tensor, "var 1"]:
        """Values of the evidence that q is judged with: those of the first chain, or row."""
        likely = self.values or self._likely
        if likely is None:
            shape = (proposal.layout.num_variables, 1)
            return torch.zeros(shape, dtype=proposal.value_dtype, device=proposal.device)
        if isinstance(likely, ChainValues) and likely.chains is not None:
            return likely.chains.columns[:, :1].to(proposal.device, proposal.value_dtype)
        return likely.draw(proposal, 1, generator)

    # -- checkpoints ---------------------------------------------------------------------------

    def state(self, paths: Paths) -> dict[str, Any]:
        """Orders and states in use."""
        orders = [dag.order for dag in paths.dags]
        return {
            "orders": torch.tensor(orders, dtype=torch.long, device="cpu"),
            "columns": paths.columns,
            "observed": paths.observed,
            "each_evidence": paths.each_evidence,
            "values": {} if self.values is None else self.values.state(),
            "likely": {} if self._likely is None else self._likely.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> Paths:
        """Take up orders and states from a checkpoint."""
        graph = self.orders.graph
        self.set_orders([Dag(graph, tuple(order)) for order in state["orders"].tolist()])
        if self.values is not None:
            self.values.restore(state["values"])
        if self._likely is not None:
            self._likely.restore(state["likely"])
        observed, device = state["observed"], self.proposal.device
        if observed is not None:
            observed = observed.to(device)
        return self.paths(state["columns"].to(device), observed, state["each_evidence"])
