"""Drawing weighted samples for rows of evidence, by whatever sampler there is, and judging them.

A q that was trained for evidence draws given it (``sample_given``); any other draws groups of
particles in an order that has the evidence first, as far as its orders and the graph allow
(``sample_sequentially``, both in :mod:`deltaai.sampling.conditioned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.conditionals import Proposal, known_under
from deltaai.conditionals.evidence import known_given
from deltaai.graphs import Dag, maximum_cardinality_order
from deltaai.inference.defaults import columns_at_once
from deltaai.inference.trust import Verdict, judge_coverage, judge_halves, judge_weights, verdict
from deltaai.inference.weighted import WeightedSamples
from deltaai.models import FactorGraph
from deltaai.sampling.conditioned import GivenSchedule, sample_given, sample_sequentially
from deltaai.sampling.gibbs import GibbsKernel
from deltaai.sampling.orders import Orders
from deltaai.sampling.tempering import annealed_chains

# Particles that are resampled together are not independent, and the evenness of their last weights
# says little about the error. So those of a row form so many groups that never mix, and the spread
# between groups is the error.
_GROUPS = 25
_MOST_ORDERS = 64  # kept for later questions; many orders have one for every set of evidence
_CHAIN_STEPS = 200, 50  # sweeps while annealing, and after


@dataclass(frozen=True, eq=False)
class EvidenceDrawer:
    """Draws weighted samples for rows of evidence.

    Parameters
    ----------
    model : the target, in the precision that weights need.
    proposal : q.
    orders : what q was trained for.
    """

    model: FactorGraph
    proposal: Proposal
    orders: Orders

    @classmethod
    def of(cls, model: FactorGraph, proposal: Proposal, orders: Orders) -> EvidenceDrawer:
        """Take the target in double precision."""
        return cls(model.to(dtype=torch.float64), proposal, orders)

    def draw(
        self,
        rows: Sequence[dict[int, int]],
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Iterator[WeightedSamples]:
        """Weighted samples for each row, in order; rows in the same order of variables together."""
        at_once = max(self._columns_at_once // max(num_samples, 1), 1)
        start = 0
        while start < len(rows):
            dag = self._dag(rows[start])
            stop = start + 1
            while stop < min(start + at_once, len(rows)) and self._dag(rows[stop]) is dag:
                stop += 1
            yield from self._draw_together(rows[start:stop], dag, num_samples, generator)
            start = stop

    @cached_property
    def _columns_at_once(self) -> int:
        layout = self.proposal.layout
        return columns_at_once(layout.num_slots, layout.num_variables)

    @cached_property
    def _schedules(self) -> dict[tuple[int, ...], tuple[Dag, GivenSchedule]]:
        return {}

    def _dag(self, row: dict[int, int]) -> Dag:
        """The order to draw in: evidence first, as far as q and the graph allow."""
        order = self.orders.fixed.order
        if self.orders.kind == "many" and row:
            order = maximum_cardinality_order(self.orders.graph, row)[::-1]
        found = self._schedules.pop(order, None)
        if found is None:
            dag = Dag(self.orders.graph, order)
            found = dag, GivenSchedule.build(self.proposal, dag)
        self._schedules[order] = found  # the last one used comes last
        if len(self._schedules) > _MOST_ORDERS:
            del self._schedules[next(iter(self._schedules))]
        return found[0]

    def _draw_together(
        self,
        rows: Sequence[dict[int, int]],
        dag: Dag,
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Iterator[WeightedSamples]:
        """Draw for rows that share an order; samples in pieces if a row has very many."""
        group_size, at_once = 1, self._columns_at_once
        if not self.proposal.layout.has_context and any(rows):
            group_size = -(-min(num_samples, at_once) // _GROUPS)
        pieces: list[list[tuple[Tensor, Tensor]]] = [[] for _ in rows]
        for start in range(0, num_samples, at_once):
            # Whole groups, so perhaps a few samples more than asked for.
            count = -(-min(at_once, num_samples - start) // group_size) * group_size
            columns, observed = self._columns(rows, count)
            num_groups = len(rows) * count // group_size
            states, log_weights = self._weighted(dag, columns, observed, num_groups, generator)
            split = zip(states.chunk(len(rows)), log_weights.chunk(len(rows)), strict=True)
            for piece, found in zip(pieces, split, strict=True):
                piece.append(found)
        for row, piece in zip(rows, pieces, strict=True):
            states, log_weights = (torch.cat(parts) for parts in zip(*piece, strict=True))
            yield WeightedSamples(self.model, states, log_weights, row, group_size)

    def trust(
        self, answers: Sequence[WeightedSamples], num_chains: int, generator: torch.Generator
    ) -> list[Verdict]:
        """Judge answers by their weights, and by chains that know nothing of q."""
        rows = [answer.observed for answer in answers]
        states, _ = self._columns(rows, num_chains, unknown=-1)
        ends = annealed_chains(
            self.model,
            states.shape[1],
            *_CHAIN_STEPS,
            generator,
            observed=states.T.contiguous(),
            kernel=self._kernel,
        )
        excesses = torch.split(self._excess(ends, rows, num_chains), num_chains)
        found = []
        for answer, chains in zip(answers, excesses, strict=True):
            doubts = judge_weights(answer.estimate)
            doubts += judge_halves(answer.log_weights, answer.group_size)
            is_possible = chains > -torch.inf
            if bool(is_possible.any()):  # chains that found nothing possible say nothing
                samples = answer.log_weights
                if answer.group_size > 1:  # they have been resampled since
                    samples = self._excess(answer.states, [answer.observed], len(answer.states))
                doubts += judge_coverage(answer.log_weights, samples, chains[is_possible])
            found.append(verdict(doubts))
        return found

    def _excess(
        self, states: Int[Tensor, "sample var"], rows: Sequence[dict[int, int]], each: int
    ) -> Float64[Tensor, "sample"]:
        """u(x) = log p~(x) - log q(x), with q given the evidence if it was trained for that.

        Parameters
        ----------
        states : as many for each row, side by side.
        """
        layout = self.proposal.layout
        found = []
        at_once = max(self._columns_at_once // each, 1)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            part = states[start * each : (start + len(some)) * each]
            columns, known = part.T.contiguous(), None
            _, observed = self._columns(some, each)
            if layout.has_context:
                known = known_given(layout, observed, self.proposal.model.dtype)
            elif self.orders.kind == "many":
                by_row = [known_under(layout, [self._dag(row)]).expand(-1, each) for row in some]
                known = torch.cat(by_row, 1)
            is_free = ~observed if layout.has_context else torch.ones_like(observed)
            with torch.no_grad():
                log_q = self.proposal.log_conditionals(columns, known) * is_free
                found.append(self.model.log_score(part).double() - log_q.sum(0).double())
        return torch.cat(found)

    @cached_property
    def _kernel(self) -> GibbsKernel:
        return GibbsKernel(self.model)

    def _columns(
        self, rows: Sequence[dict[int, int]], count: int, unknown: int = 0
    ) -> tuple[Int[Tensor, "var batch"], Bool[Tensor, "var batch"]]:
        """Evidence of each row as columns, so many of each, side by side."""
        columns = torch.full((self.model.num_variables, len(rows)), -1)
        for number, row in enumerate(rows):
            if row:
                columns[list(row), number] = torch.tensor(list(row.values()))
        columns = columns.repeat_interleave(count, dim=1)
        return columns.clamp(min=unknown), columns >= 0

    def _weighted(
        self,
        dag: Dag,
        columns: Int[Tensor, "var batch"],
        observed: Bool[Tensor, "var batch"],
        num_groups: int,
        generator: torch.Generator | None,
    ) -> tuple[Int[Tensor, "batch var"], Float64[Tensor, "batch"]]:
        layout = self.proposal.layout
        schedule = self._schedules[dag.order][1]
        if layout.has_context:
            known = known_given(layout, observed, self.proposal.model.dtype)
            states, log_q = sample_given(
                self.proposal, schedule, columns, observed, known, generator=generator
            )
            log_weights = torch.zeros(len(log_q), dtype=torch.float64)
        else:
            shown = None
            if self.orders.kind == "many":
                shown = known_under(layout, [dag]).expand(-1, columns.shape[1])
            states, log_q, log_weights = sample_sequentially(
                self.proposal, schedule, columns, observed, shown, num_groups, generator=generator
            )
        with torch.no_grad():
            log_weights = log_weights + self.model.log_score(states.T) - log_q.double()
        return states.T.contiguous(), log_weights
