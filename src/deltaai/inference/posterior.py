"""Drawing weighted samples for rows of evidence, by whatever sampler there is, and judging them.

A q that was trained for evidence draws given it (``sample_given``); any other draws groups of
particles in an order that has the evidence first, as far as its orders and the graph allow
(``sample_sequentially``, both in :mod:`deltaai.sampling.conditioned`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.conditionals import Proposal, known_under
from deltaai.conditionals.evidence import known_given
from deltaai.graphs import Dag, maximum_cardinality_order
from deltaai.inference.defaults import columns_at_once
from deltaai.inference.second_opinion import second_opinion
from deltaai.inference.trust import (
    BLIND,
    UNJUDGED,
    Verdict,
    judge_coverage,
    judge_marginals,
    judge_partition,
    judge_samples,
    samples_needed,
    smallest_seen,
    verdict,
)
from deltaai.inference.weighted import WeightedSamples
from deltaai.models import FactorGraph
from deltaai.sampling.conditioned import GivenSchedule, sample_given, sample_sequentially
from deltaai.sampling.orders import Orders
from deltaai.threads import Turn

# Particles that are resampled together are not independent, and the evenness of their last weights
# says little about the error. So those of a row form so many groups that never mix, and the spread
# between groups is the error.
_GROUPS = 25
_MOST_TIMES = 4  # as many samples as were asked for, where that helps
_MOST_ORDERS = 64  # kept for later questions; many orders have one for every set of evidence


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples of a posterior, and what they are worth.

    Parameters
    ----------
    samples : weighted; log Z is theirs.
    refined : the ones that marginals are taken from.
    judged : their status.
    """

    samples: WeightedSamples
    refined: WeightedSamples
    judged: Verdict = UNJUDGED


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
    _schedules: dict[tuple[int, ...], tuple[Dag, GivenSchedule]] = field(
        default_factory=dict, init=False, repr=False
    )
    _turn: Turn = field(default_factory=Turn, init=False, repr=False)  # at the schedules

    @classmethod
    def of(cls, model: FactorGraph, proposal: Proposal, orders: Orders) -> EvidenceDrawer:
        """Take the target in double precision."""
        return cls(model.to(dtype=torch.float64), proposal, orders)

    def draw(
        self,
        rows: Sequence[dict[int, int]],
        num_samples: int,
        generator: torch.Generator | None,
        group_size: int | None = None,
    ) -> Iterator[WeightedSamples]:
        """Weighted samples for each row, in order; rows in the same order of variables together.

        Parameters
        ----------
        rows : evidence.
        num_samples : how many for each.
        group_size : of particles that are resampled together (default: of some, given evidence).
        """
        at_once = max(self._columns_at_once // max(num_samples, 1), 1)
        start = 0
        while start < len(rows):
            scheduled = self._scheduled(rows[start])
            stop = start + 1
            while stop < min(start + at_once, len(rows)) and (
                self._scheduled(rows[stop])[0] is scheduled[0]
            ):
                stop += 1
            some = rows[start:stop]
            size = self._group_size(some, num_samples) if group_size is None else group_size
            yield from self._draw_together(some, scheduled, num_samples, size, generator)
            start = stop

    @cached_property
    def _columns_at_once(self) -> int:
        layout = self.proposal.layout
        return columns_at_once(layout.num_slots, layout.num_variables)

    def _scheduled(self, row: dict[int, int]) -> tuple[Dag, GivenSchedule]:
        """The order to draw in: evidence first, as far as q and the graph allow."""
        order = self.orders.fixed.order
        if self.orders.kind == "many" and row:
            order = maximum_cardinality_order(self.orders.graph, row)[::-1]
        with self._turn:
            found = self._schedules.pop(order, None)
            if found is None:
                dag = Dag(self.orders.graph, order)
                found = dag, GivenSchedule.build(self.proposal, dag)
            self._schedules[order] = found  # the last one used comes last
            if len(self._schedules) > _MOST_ORDERS:
                del self._schedules[next(iter(self._schedules))]
        return found

    def _group_size(self, rows: Sequence[dict[int, int]], num_samples: int) -> int:
        """Particles to resample together: one alone where q looks ahead, or has nothing to see."""
        if self.proposal.layout.has_context or not any(rows):
            return 1
        return -(-min(num_samples, self._columns_at_once) // _GROUPS)

    def _draw_together(
        self,
        rows: Sequence[dict[int, int]],
        scheduled: tuple[Dag, GivenSchedule],
        num_samples: int,
        group_size: int,
        generator: torch.Generator | None,
    ) -> Iterator[WeightedSamples]:
        """Draw for rows that share an order; samples in pieces if a row has very many."""
        at_once = self._columns_at_once
        pieces: list[list[tuple[Tensor, Tensor]]] = [[] for _ in rows]
        for start in range(0, num_samples, at_once):
            # Whole groups, so perhaps a few samples more than asked for.
            count = -(-min(at_once, num_samples - start) // group_size) * group_size
            columns, observed = self._columns(rows, count)
            num_groups = len(rows) * count // group_size
            states, log_weights = self._weighted(
                scheduled, columns, observed, num_groups, generator
            )
            split = zip(states.chunk(len(rows)), log_weights.chunk(len(rows)), strict=True)
            for piece, found in zip(pieces, split, strict=True):
                piece.append(found)
        for row, piece in zip(rows, pieces, strict=True):
            states, log_weights = (torch.cat(parts) for parts in zip(*piece, strict=True))
            method = "weighted samples" if group_size == 1 else "sequential Monte Carlo"
            yield WeightedSamples(self.model, states, log_weights, row, group_size, method)

    def trust(
        self, drawn: Drawn, num_samples: int, generator: torch.Generator
    ) -> tuple[Verdict, WeightedSamples | None]:
        """Judge samples of q by their weights, and by a second opinion that knows nothing of q.

        Parameters
        ----------
        num_samples : samples of the second opinion; none if there is to be none.

        Returns
        -------
        The verdict, and the opinion if there is one.
        """
        doubts = judge_samples(drawn.samples, drawn.refined)
        if num_samples == 0:
            return verdict(doubts), None
        row = drawn.samples.observed
        opinion = second_opinion(self.model, row, generator, num_samples=num_samples)
        if opinion is not None:
            doubts += judge_partition(drawn.samples, opinion)
            doubts += judge_marginals(drawn.refined, opinion)
            doubts += self._judge_coverage(drawn.samples, opinion)
        return verdict(doubts, visible_share=smallest_seen(opinion)), opinion

    def judged(
        self, samples: WeightedSamples, num_samples: int, generator: torch.Generator
    ) -> Drawn:
        """Samples with a verdict; others in their place if theirs is bad and evidence is given.

        Where a few times as many would be enough, more are drawn. Without evidence it is q itself
        that is judged. Given evidence that q was not made for, its samples may be poor while
        messages, which are computed for that very evidence, are not; and what these cannot have
        missed is certain, by their ceiling.

        Parameters
        ----------
        num_samples : samples of a second opinion; none if there is to be none.

        Raises
        ------
        WeightError
            If no sample is possible.
        """
        if not samples.is_possible and num_samples and samples.observed:
            row = samples.observed
            opinion = second_opinion(self.model, row, generator, num_samples=num_samples)
            instead = _instead(opinion, generator)
            if instead is not None:
                return instead
        drawn = self._enough(samples, generator)
        judged, opinion = self.trust(drawn, num_samples, generator)
        instead = _instead(opinion, generator) if samples.observed and judged.doubts else None
        return replace(drawn, judged=judged) if instead is None else instead

    def _enough(self, samples: WeightedSamples, generator: torch.Generator) -> Drawn:
        """The samples, with more of them if a few times as many are known to be enough."""
        drawn, count = Drawn(samples, samples.refined(generator)), len(samples.states)
        times = samples_needed(drawn.samples, drawn.refined) / count
        if not 1 < times <= _MOST_TIMES:
            return drawn
        for _ in range(math.ceil(times) - 1):
            more = self.draw([samples.observed], count, generator, samples.group_size)
            samples = samples.joined(*more)
        return Drawn(samples, samples.refined(generator))

    def _judge_coverage(self, answer: WeightedSamples, opinion: WeightedSamples) -> tuple[str, ...]:
        samples = answer.log_weights
        if answer.group_size > 1:  # they have been resampled since
            samples = self._excess(answer.states, answer.observed)
        excess = self._excess(opinion.states, answer.observed)
        return judge_coverage(answer.log_weights, samples, opinion, excess)

    def _excess(
        self, states: Int[Tensor, "sample var"], row: dict[int, int]
    ) -> Float64[Tensor, "sample"]:
        """u(x) = log p~(x) - log q(x), with q given the evidence if it was trained for that."""
        layout = self.proposal.layout
        found = []
        for part in torch.split(states, self._columns_at_once):
            columns, known = part.T.contiguous(), None
            _, observed = self._columns([row], len(part))
            if layout.has_context:
                known = known_given(layout, observed, self.proposal.model.dtype)
            elif self.orders.kind == "many":
                known = known_under(layout, [self._scheduled(row)[0]]).expand(-1, len(part))
            is_free = ~observed if layout.has_context else torch.ones_like(observed)
            with torch.no_grad():
                log_q = self.proposal.log_conditionals(columns, known) * is_free
                found.append(self.model.log_score(part).double() - log_q.sum(0).double())
        return torch.cat(found)

    def _columns(
        self, rows: Sequence[dict[int, int]], count: int
    ) -> tuple[Int[Tensor, "var batch"], Bool[Tensor, "var batch"]]:
        """Evidence of each row as columns, so many of each, side by side."""
        columns = torch.full(
            (self.model.num_variables, len(rows)), -1, dtype=torch.long, device="cpu"
        )
        for number, row in enumerate(rows):
            if row:
                columns[list(row), number] = torch.tensor(
                    list(row.values()), dtype=torch.long, device="cpu"
                )
        columns = columns.repeat_interleave(count, dim=1)
        return columns.clamp(min=0), columns >= 0

    def _weighted(
        self,
        scheduled: tuple[Dag, GivenSchedule],
        columns: Int[Tensor, "var batch"],
        observed: Bool[Tensor, "var batch"],
        num_groups: int,
        generator: torch.Generator | None,
    ) -> tuple[Int[Tensor, "batch var"], Float64[Tensor, "batch"]]:
        layout = self.proposal.layout
        dag, schedule = scheduled
        if layout.has_context:
            known = known_given(layout, observed, self.proposal.model.dtype)
            states, log_q = sample_given(
                self.proposal, schedule, columns, observed, known, generator=generator
            )
            log_weights = torch.zeros(len(log_q), dtype=torch.float64, device="cpu")
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


def _instead(opinion: WeightedSamples | None, generator: torch.Generator) -> Drawn | None:
    """A second opinion as the answer, if it is good enough and certain to see enough."""
    if opinion is None or opinion.certain_share >= BLIND:
        return None
    refined = opinion.refined(generator)
    if judge_samples(opinion, refined):
        return None
    return Drawn(opinion, refined, verdict(visible_share=opinion.certain_share))
