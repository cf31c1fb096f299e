"""Drawing weighted samples for rows of evidence, by whatever sampler there is, and judging them.

A q that was trained for evidence draws given it (``sample_ancestrally``); any other draws groups of
particles in an order that has the evidence first, as far as its orders and the graph allow
(``sample_sequentially``, both in :mod:`deltaai.sampling`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float64, Num
from torch import Tensor

from deltaai.budget import Budget
from deltaai.conditionals import Known, Proposal, known_given, known_under
from deltaai.devices import CPU
from deltaai.fitting.defaults import columns_at_once
from deltaai.fitting.piece_clock import PieceClock
from deltaai.graphs import maximum_cardinality_order
from deltaai.models import Columns, FactorGraph, StandardUnits, Target, on_cpu
from deltaai.sampling import (
    ON_POLICY,
    Given,
    KeptSchedules,
    Orders,
    Schedule,
    sample_ancestrally,
    sample_sequentially,
)
from deltaai.trust import (
    BLIND,
    Check,
    Drawn,
    Verdict,
    WeightedSamples,
    judge_coverage,
    judge_marginals,
    judge_partition,
    judge_samples,
    samples_needed,
    smallest_seen,
    verdict,
)

# Particles that are resampled together are not independent, and the evenness of their last weights
# says little about the error. So those of a row form so many groups that never mix, and the spread
# between groups is the error.
_GROUPS = 25
_MOST_TIMES = 4  # as many samples as were asked for, where that helps
# Copies of the states that are alive at once, with and without moving them; numbers beside; and how
# many times the memory of all that there must be, as drawing and checking need some too.
_COPIES_MOVED, _COPIES, _NUMBERS_PER_SAMPLE, _SHARE_OF_SAMPLES = 7, 1, 24, 2
_UNITS_ALIVE = 3  # copies of all hidden units, where all of them are evaluated at once


def bytes_of_samples(num_samples: int, num_variables: int, *, is_moved: bool = False) -> int:
    """What weighted samples need in all, those that are moved more than others.

    >>> bytes_of_samples(10_000, 64), bytes_of_samples(10_000, 64, is_moved=True)
    (14080000, 75520000)
    """
    each = (_COPIES_MOVED if is_moved else _COPIES) * num_variables + _NUMBERS_PER_SAMPLE
    return 8 * _SHARE_OF_SAMPLES * num_samples * each


@dataclass(frozen=True, eq=False)
class EvidenceDrawer:
    """Draws weighted samples for rows of evidence.

    Parameters
    ----------
    model : the target in double precision, real variables in standard coordinates, as q has them.
    judging : the target on the CPU as the user has it, where samples are judged.
    proposal : q.
    orders : what q was trained for.
    schedules : of orders that were asked for before.
    is_for_evidence : whether q was trained for evidence.
    """

    model: FactorGraph
    judging: FactorGraph
    proposal: Proposal
    orders: Orders
    schedules: KeptSchedules
    is_for_evidence: bool = False

    @classmethod
    def of(
        cls,
        model: FactorGraph,
        proposal: Proposal,
        orders: Orders,
        *,
        is_for_evidence: bool = False,
    ) -> EvidenceDrawer:
        """Take the target in double precision.

        Parameters
        ----------
        is_for_evidence : whether q was trained for evidence, and so sees it coming.
        """
        masks = orders.kind == "many" or is_for_evidence
        schedules = KeptSchedules(proposal, masks=masks, is_given=True)
        judging = Target(model).now(torch.float64)
        units = proposal.target.units
        scorer = judging if units is None else Target(model, units=units).now(torch.float64)
        return cls(scorer, on_cpu(judging), proposal, orders, schedules, is_for_evidence)

    def draw(
        self,
        rows: Sequence[dict[int, Any]],
        num_samples: int,
        generator: torch.Generator | None,
        group_size: int | None = None,
        budget: Budget | None = None,
    ) -> Iterator[WeightedSamples]:
        """Weighted samples for each row, in order; rows in the same order of variables together.

        Parameters
        ----------
        rows : evidence.
        num_samples : how many for each.
        group_size : of particles that are resampled together (default: of some, given evidence).
        budget : what it may use; there are fewer samples if the time is over before all are drawn.
        """
        budget = Budget.of() if budget is None else budget
        needed = self._bytes_of(num_samples, has_evidence=any(rows))
        budget.refuse(f"{num_samples} samples", needed, "ask for fewer")
        at_once = max(self._columns_at_once(budget) // max(num_samples, 1), 1)
        start = 0
        while start < len(rows):
            scheduled = self._scheduled(rows[start])
            stop = start + 1
            while stop < min(start + at_once, len(rows)) and (
                self._scheduled(rows[stop]) is scheduled
            ):
                stop += 1
            some = rows[start:stop]
            size = group_size or self._group_size(some, num_samples, budget)
            yield from self._draw_together(some, scheduled, num_samples, size, generator, budget)
            start = stop

    def _columns_at_once(self, budget: Budget) -> int:
        return columns_at_once(self.proposal.layout, budget.memory)

    def _bytes_of(self, num_samples: int, *, has_evidence: bool) -> int:
        is_moved = has_evidence and not self.is_for_evidence
        return bytes_of_samples(num_samples, self.model.num_variables, is_moved=is_moved)

    def _scheduled(self, row: dict[int, Any]) -> Schedule:
        """The order to draw in: evidence first, as far as q and the graph allow."""
        if self.orders.kind == "one" or not row:
            return self.schedules.of(self.orders.graph, self.orders.fixed.order)
        order = maximum_cardinality_order(self.orders.graph, row)[::-1]
        return self.schedules.of(self.orders.graph, order)

    def _group_size(self, rows: Sequence[dict[int, Any]], num_samples: int, budget: Budget) -> int:
        """Particles to resample together: one alone where q looks ahead, or has nothing to see."""
        if self.is_for_evidence or not any(rows):
            return 1
        return -(-min(num_samples, self._columns_at_once(budget)) // _GROUPS)

    def _draw_together(
        self,
        rows: Sequence[dict[int, Any]],
        scheduled: Schedule,
        num_samples: int,
        group_size: int,
        generator: torch.Generator | None,
        budget: Budget,
    ) -> Iterator[WeightedSamples]:
        """Draw for rows that share an order; samples in pieces if a row has very many."""
        at_once = self._columns_at_once(budget)
        # Whole groups, so perhaps a few samples more than asked for. What is not filled in the end
        # takes no memory: the system hands it out when it is written to.
        shape = (len(rows), num_samples + (num_samples // at_once + 1) * group_size)
        dtype = torch.long if self.model.is_discrete else torch.float64
        states = torch.empty(*shape, self.model.num_variables, dtype=dtype, device=CPU)
        log_weights = torch.empty(shape, dtype=torch.float64, device=CPU)
        clock, wanted, done = PieceClock(budget, at_once, group_size), num_samples, 0
        while wanted > 0 and clock.has_time:
            piece = min(clock.size, wanted)
            wanted -= piece
            count = -(-piece // group_size) * group_size
            columns, observed = self._columns(rows, count)
            num_groups = len(rows) * count // group_size
            drawn, weights = self._weighted(scheduled, columns, observed, num_groups, generator)
            states[:, done : done + count] = drawn.view(len(rows), count, -1)
            log_weights[:, done : done + count] = weights.view(len(rows), count)
            done += count
            clock.tick(count)
        method = "weighted samples" if group_size == 1 else "sequential Monte Carlo"
        for number, row in enumerate(rows):
            if row and not self.model.is_discrete:  # to the last digit
                exact = torch.tensor(list(row.values()), dtype=torch.float64, device=CPU)
                states[number, :, list(row)] = exact
                if self._units is not None:  # what is observed is no longer integrated over
                    log_weights[number] -= self._units.of(list(row)).log_volume
            kept = states[number, :done], log_weights[number, :done]
            yield WeightedSamples(self.judging, *kept, row, group_size, method)

    def trust(self, drawn: Drawn, check: Check) -> tuple[Verdict, WeightedSamples | None]:
        """Judge samples of q by their weights, and by a second opinion that knows nothing of q.

        Returns
        -------
        The verdict, and the opinion if there is one.
        """
        doubts = judge_samples(drawn.samples, drawn.refined)
        if check.num_samples == 0:
            return verdict(doubts), None
        opinion = check.opinion(self.judging, drawn.samples.observed)
        if opinion is not None:
            doubts += judge_partition(drawn.samples, opinion)
            doubts += judge_marginals(drawn.refined, opinion)
            doubts += self._judge_coverage(drawn.samples, opinion, check.budget)
        return verdict(doubts, visible_share=smallest_seen(opinion)), opinion

    def judged(self, samples: WeightedSamples, check: Check) -> Drawn:
        """Samples with a verdict; others in their place if theirs is bad and evidence is given.

        Where a few times as many would be enough, more are drawn. Without evidence it is q itself
        that is judged. Given evidence that q was not made for, its samples may be poor while
        messages, which are computed for that very evidence, are not; and what these cannot have
        missed is certain, by their ceiling.

        Raises
        ------
        WeightError
            If no sample is possible.
        """
        generator = check.generator
        if not samples.is_possible and check.num_samples and samples.observed:
            opinion = check.opinion(self.judging, samples.observed)
            instead = _instead(opinion, generator, "none of them is possible")
            if instead is not None:
                return instead
        drawn = self._enough(samples, check)
        judged, opinion = self.trust(drawn, check)
        instead = None
        if samples.observed and judged.doubts:
            instead = _instead(opinion, generator, judged.doubts[0].partition(":")[0])
        return replace(drawn, judged=judged) if instead is None else instead

    def _enough(self, samples: WeightedSamples, check: Check) -> Drawn:
        """The samples, with more of them if a few times as many are known to be enough."""
        generator, budget = check.generator, check.budget
        drawn, count = Drawn(samples, samples.refined(generator)), len(samples.states)
        times = samples_needed(drawn.samples, drawn.refined) / count
        if not 1 < times <= _MOST_TIMES:
            return drawn
        needed = self._bytes_of(math.ceil(times) * count, has_evidence=bool(samples.observed))
        if needed > budget.memory or budget.time_limit is not None:
            return drawn  # as many as were asked for is what there is time for
        for _ in range(math.ceil(times) - 1):
            more = self.draw([samples.observed], count, generator, samples.group_size, budget)
            samples = samples.joined(*more)
        return Drawn(samples, samples.refined(generator))

    def _judge_coverage(
        self, answer: WeightedSamples, opinion: WeightedSamples, budget: Budget
    ) -> tuple[str, ...]:
        samples = answer.log_weights
        if answer.group_size > 1:  # they have been resampled since
            samples = self._excess(answer.states, answer.observed, budget)
        excess = self._excess(opinion.states, answer.observed, budget)
        return judge_coverage(answer.log_weights, samples, opinion, excess)

    def _excess(
        self, states: Num[Tensor, "sample var"], row: dict[int, Any], budget: Budget
    ) -> Float64[Tensor, "sample"]:
        """u(x) = log p~(x) - log q(x), with q given the evidence if it was trained for that."""
        found, scheduled = [], self._scheduled(row)
        for part in torch.split(states, max(self._columns_at_once(budget) // _UNITS_ALIVE, 1)):
            _, observed = self._columns([row], len(part))
            known = self._known(scheduled, observed)
            given = observed if self.is_for_evidence else None
            here = part.to(self.model.device)
            if self._units is not None:
                here = self._units.inward(here.T).T
            with torch.no_grad():
                columns = here.T.contiguous().to(self.proposal.value_dtype)
                log_q = self.proposal.log_prob(columns, known, given)
                found.append((self.model.log_score(here).double() - log_q.double()).to(CPU))
        return torch.cat(found)

    def _known(self, scheduled: Schedule, observed: Bool[Tensor, "var batch"]) -> Known:
        """What each conditional sees in the order of the schedule; all that it has if always so."""
        if not self.schedules.masks:
            return None
        layout = self.proposal.layout
        before = known_under(layout, scheduled.dags, self.proposal.dtype)
        before = before.expand(-1, observed.shape[1])
        return known_given(layout, before, observed) if self.is_for_evidence else before

    def _columns(
        self, rows: Sequence[dict[int, Any]], count: int
    ) -> tuple[Columns, Bool[Tensor, "var batch"]]:
        """Evidence of each row as columns, so many of each, side by side."""
        shape, device = (self.model.num_variables, len(rows)), self.model.device
        dtype = torch.long if self.model.is_discrete else torch.float64
        columns = torch.zeros(shape, dtype=dtype, device=device)
        observed = torch.zeros(shape, dtype=torch.bool, device=device)
        for number, row in enumerate(rows):
            if row:
                values = torch.tensor(list(row.values()), dtype=dtype, device=device)
                columns[list(row), number] = values
                observed[list(row), number] = True
        if self._units is not None:
            columns = self._units.inward(columns)
        columns = columns.where(observed, 0).to(self.proposal.value_dtype)
        return columns.repeat_interleave(count, 1), observed.repeat_interleave(count, 1)

    @property
    def _units(self) -> StandardUnits | None:
        return self.proposal.target.units

    def _weighted(
        self,
        scheduled: Schedule,
        columns: Columns,
        observed: Bool[Tensor, "var batch"],
        num_groups: int,
        generator: torch.Generator | None,
    ) -> tuple[Num[Tensor, "batch var"], Float64[Tensor, "batch"]]:
        given = Given(columns, observed, self._known(scheduled, observed))
        if self.is_for_evidence:
            drawn, log_drawn = sample_ancestrally(
                self.proposal,
                scheduled,
                columns.shape[1],
                policy=ON_POLICY,
                generator=generator,
                given=given,
            )
            states, log_q = drawn.flatten(1), log_drawn.flatten()
            log_weights = torch.zeros_like(log_q, dtype=torch.float64)
        else:
            states, log_q, log_weights = sample_sequentially(
                self.proposal, scheduled, given, num_groups, generator=generator
            )
        with torch.no_grad():
            log_weights = log_weights + self.model.log_score(states.T) - log_q.double()
        if self._units is not None:
            states = self._units.outward(states.double())
        return states.T.contiguous(), log_weights


def _instead(
    opinion: WeightedSamples | None, generator: torch.Generator, doubt: str
) -> Drawn | None:
    """A second opinion as the answer, if it is good enough and certain to see enough."""
    if opinion is None or opinion.certain_share >= BLIND:
        return None
    refined = opinion.refined(generator)
    if judge_samples(opinion, refined):
        return None
    note = f"the sampler's own samples were doubted ({doubt}): {opinion.method} for this evidence"
    judged = verdict(visible_share=opinion.certain_share)
    return Drawn(opinion, refined, judged, (f"{note} took their place",))
