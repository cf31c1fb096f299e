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
from deltaai.inference.trust import Verdict, judge_coverage, judge_weights, verdict
from deltaai.inference.weighted import WeightedSamples
from deltaai.models import FactorGraph
from deltaai.sampling.conditioned import GivenSchedule, sample_given, sample_sequentially
from deltaai.sampling.orders import Orders
from deltaai.sampling.tempering import annealed_chains

_COLUMNS = 8192  # drawn at once
# Particles that are resampled together are not independent, and the evenness of their last weights
# says little about the error. So those of a row form so many groups that never mix, and the spread
# between groups is the error.
_GROUPS = 25
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
        at_once = max(_COLUMNS // max(num_samples, 1), 1)
        start = 0
        while start < len(rows):
            dag = self._dag(rows[start])
            stop = start + 1
            while stop < min(start + at_once, len(rows)) and self._dag(rows[stop]) is dag:
                stop += 1
            yield from self._draw_together(rows[start:stop], dag, num_samples, generator)
            start = stop

    @cached_property
    def _schedules(self) -> dict[tuple[int, ...], tuple[Dag, GivenSchedule]]:
        return {}

    def _dag(self, row: dict[int, int]) -> Dag:
        """The order to draw in: evidence first, as far as q and the graph allow."""
        order = self.orders.fixed.order
        if self.orders.kind == "many" and row:
            order = maximum_cardinality_order(self.orders.graph, row)[::-1]
        if order not in self._schedules:
            dag = Dag(self.orders.graph, order)
            self._schedules[order] = dag, GivenSchedule.build(self.proposal, dag)
        return self._schedules[order][0]

    def _draw_together(
        self,
        rows: Sequence[dict[int, int]],
        dag: Dag,
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Iterator[WeightedSamples]:
        """Draw for rows that share an order; samples in pieces if a row has very many."""
        group_size = 1
        if not self.proposal.layout.has_context and any(rows):
            group_size = -(-min(num_samples, _COLUMNS) // _GROUPS)
        pieces: list[list[tuple[Tensor, Tensor]]] = [[] for _ in rows]
        for start in range(0, num_samples, _COLUMNS):
            # Whole groups, so perhaps a few samples more than asked for.
            count = -(-min(_COLUMNS, num_samples - start) // group_size) * group_size
            columns, observed = self._columns(rows, count)
            num_groups = len(rows) * count // group_size
            states, log_weights = self._weighted(dag, columns, observed, num_groups, generator)
            split = zip(states.chunk(len(rows)), log_weights.chunk(len(rows)), strict=True)
            for piece, found in zip(pieces, split, strict=True):
                piece.append(found)
        for row, piece in zip(rows, pieces, strict=True):
            states, log_weights = (torch.cat(parts) for parts in zip(*piece, strict=True))
            yield WeightedSamples(self.model, states, log_weights, row, group_size)

    def excess(
        self, states: Int[Tensor, "sample var"], row: dict[int, int]
    ) -> Float64[Tensor, "sample"]:
        """u(x) = log p~(x) - log q(x), with q given the evidence if it was trained for that."""
        layout, columns = self.proposal.layout, states.T.contiguous()
        observed = torch.zeros(columns.shape, dtype=torch.bool)
        known = None
        if layout.has_context:
            observed[list(row)] = True
            known = known_given(layout, observed, self.proposal.model.dtype)
        elif self.orders.kind == "many":
            known = known_under(layout, [self._dag(row)]).expand(-1, columns.shape[1])
        with torch.no_grad():
            log_q = self.proposal.log_conditionals(columns, known).masked_fill(observed, 0).sum(0)
            return self.model.log_score(states).double() - log_q.double()

    def trust(
        self, answer: WeightedSamples, num_chains: int, generator: torch.Generator
    ) -> Verdict:
        """Judge an answer by its weights, and by chains that know nothing of q."""
        doubts = judge_weights(answer.estimate)
        states = self._chain_ends(answer.observed, num_chains, generator)
        is_possible = self.model.log_score(states) > -torch.inf
        if not bool(is_possible.any()):
            return verdict(doubts)  # chains that never found a possible state say nothing
        chains = self.excess(states[is_possible], answer.observed)
        samples = self.excess(answer.states, answer.observed)
        return verdict(doubts, judge_coverage(answer.log_weights, samples, chains))

    def _chain_ends(
        self, row: dict[int, int], num_chains: int, generator: torch.Generator
    ) -> Int[Tensor, "chain var"]:
        """Ends of annealed Gibbs chains given the evidence."""
        names = {self.model.variables[v].name: state for v, state in row.items()}
        states = torch.zeros(num_chains, self.model.num_variables, dtype=torch.long)
        free = [v for v in range(self.model.num_variables) if v not in row]
        if free:
            model = self.model.condition(names)
            states[:, free] = annealed_chains(model, num_chains, *_CHAIN_STEPS, generator)
        if row:
            states[:, list(row)] = torch.tensor(list(row.values()))
        return states

    def _columns(
        self, rows: Sequence[dict[int, int]], count: int
    ) -> tuple[Int[Tensor, "var batch"], Bool[Tensor, "var batch"]]:
        """Evidence of each row as columns, so many of each, side by side."""
        columns = torch.full((self.model.num_variables, len(rows)), -1)
        for number, row in enumerate(rows):
            if row:
                columns[list(row), number] = torch.tensor(list(row.values()))
        columns = columns.repeat_interleave(count, dim=1)
        return columns.clamp(min=0), columns >= 0

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
