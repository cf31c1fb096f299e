"""A second opinion on a sampled answer, by weighted samples that owe nothing to q.

Weights of q tell of their own unevenness and of nothing else: a q that lost a mode has perfect
weights, and so have particles that all went one way. So each sampled answer is held against another
set of weighted samples of the same posterior:

- *messages*: states drawn from weighted mini-bucket messages
  (:mod:`deltaai.messages.mini_buckets.sampling`), in tables of a bounded size. Their weights have a
  ceiling exp(U), so each draw hits a part of p of share m with probability at least m Z / exp(U),
  whatever that part is. Nothing else is claimed for them: in peaked models messages can go one way,
  and have even weights. Only where zeros leave no other way do weights count, and particles are
  resampled where messages lose too much. Where the ceiling is too high it is lowered, in smaller
  tables (:mod:`deltaai.messages.mini_buckets.tight_messages`).
- *annealed chains* (:mod:`deltaai.mcmc.annealed`), where messages have too little to say: in dense
  models, and in peaked ones of many states. They start from messages of a flattened model, where
  these are good, are cooled from there, and are copied by their weights on the way. Models with
  real variables have no messages; their chains start from a wide reference
  (:mod:`deltaai.trust.real_opinions`).

What an opinion can see follows from its own effective number or from its ceiling
(:attr:`~deltaai.trust.weighted.WeightedSamples.visible_share`). An effective number is itself
an estimate: chains that all miss a part which was cut off while they were cooled do not know of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from deltaai.budget import Budget
from deltaai.errors import NotAffordableError, TimeLimitError
from deltaai.exact import Remainder
from deltaai.graphs import Elimination, eliminate, min_fill_order
from deltaai.mcmc import (
    LARGEST_GAP,
    PILOT_CHAINS,
    GibbsKernel,
    MessageStart,
    cool,
    planned,
)
from deltaai.messages import MessageSampler, TightMessages, best_order
from deltaai.models import FactorGraph, StandardUnits, has_zeros
from deltaai.trust.real_opinions import cooled_chains
from deltaai.trust.weighted import DRAWS_TO_FIND, WeightedSamples

CHECK_SAMPLES = 4000
# Parts of p of this share should be seen; where messages do not, more is tried.
WANTED_SHARE = 0.05
# Entries of all tables of messages: some tenths of a second, and a few hundred megabytes at most.
_MOST_ENTRIES, _MEMORY = 2**24, 2**29
# Neighbours of a variable, on average: with more than the first, messages are slow and say nothing;
# with more than the second, tightening them is not worth it.
_MOST_NEIGHBOURS, _FEW_NEIGHBOURS = 64, 12
_BYTES_PER_VALUE = 48  # of one variable in one sample, in all copies of it
_GROUP_SIZE = 32  # particles that are resampled together
# Tightening: entries of all tables, by what it divides the gap between bound and log Z, how many
# times as long as one pass of large tables it takes, and how many times the draws it may need.
_SMALL_TABLES, _GAIN, _TIGHTENING, _MOST_DRAWS = 2**20, 6.0, 8, 5
# Nanoseconds that chains may take, roughly, at first or after messages were tightened in vain; the
# share of samples that is enough if effective, and that can be had.
_WORK, _WORK_AFTER_TIGHTENING, _WANTED_EFFECTIVE, _MOST_EFFECTIVE = 2.4e9, 1.4e9, 0.1, 0.8

# How many times as many where samples are only counted, in bins of real variables.
_BINNED = 2.0


def second_opinion(
    model: FactorGraph,
    observed: dict[int, Any],
    generator: torch.Generator,
    *,
    num_samples: int = CHECK_SAMPLES,
    budget: Budget | None = None,
    units: StandardUnits | None = None,
) -> WeightedSamples | None:
    """Form an opinion on the posterior given evidence; none if nothing can be said.

    Parameters
    ----------
    model : the target, in double precision.
    observed : observed variables and their states or values.
    num_samples : samples of the opinion; more see smaller parts.
    budget : what it may use; what would take more is left out.
    units : centre and unit of each variable given the evidence, where there are real ones; found
        anew if there are none.
    """
    budget = Budget.of() if budget is None else budget
    num_samples = min(num_samples, _affordable(model, budget))
    if num_samples < 1 or budget.is_over:
        return None
    left = Remainder.given(model, observed)
    asked = _Posterior(model, left.reduced, left.free, observed)
    if not asked.reduced.is_discrete:
        inner = None if units is None else units.of(list(left.free))
        wanted = min(_BINNED * _enough_of(num_samples), _MOST_EFFECTIVE * num_samples)
        drawn = cooled_chains(asked.reduced, num_samples, wanted, generator, budget, inner)
        return None if drawn is None else asked.samples(drawn, "annealed chains")
    found = start = None
    if asked.neighbours <= _MOST_NEIGHBOURS:
        found, start = _by_messages(asked, num_samples, generator, budget)
    if not (asked.has_zeros or _is_enough(found)):
        found = _seeing_most(found, _by_chains(asked, num_samples, generator, budget, start))
    return found


def _is_enough(found: WeightedSamples | None) -> bool:
    return found is not None and found.visible_share <= WANTED_SHARE


def _seeing_most(
    one: WeightedSamples | None, other: WeightedSamples | None
) -> WeightedSamples | None:
    """The opinion that would notice the smaller part."""
    if one is None or other is None:
        return other if one is None else one
    return other if other.visible_share < one.visible_share else one


@dataclass(frozen=True, eq=False)
class _Posterior:
    """A question: the model, what evidence leaves of it, and which variables that is."""

    model: FactorGraph
    reduced: FactorGraph
    free: tuple[int, ...]
    observed: dict[int, Any]

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some states are impossible, where chains may be lost."""
        return has_zeros(self.reduced)

    @cached_property
    def neighbours(self) -> float:
        """Of a variable, on average."""
        return 2 * self.reduced.markov_graph().num_edges / max(len(self.free), 1)

    @cached_property
    def _elimination(self) -> Elimination:
        graph = self.reduced.markov_graph()
        return eliminate(graph, min_fill_order(graph))

    def messages(self, budget: Budget, beta: float = 1.0) -> MessageSampler:
        """Messages of what evidence leaves, at an inverse temperature."""
        return MessageSampler.build(
            self.reduced,
            memory_limit=min(_MEMORY, budget.memory // 4),
            most_total_entries=_MOST_ENTRIES,
            elimination=self._elimination,
            beta=beta,
        )

    def tightened(self, budget: Budget, log_partition: float) -> TightMessages | None:
        """The same in smaller tables and a better order, tightened, if that is likely to do.

        Parameters
        ----------
        log_partition : an estimate of log Z, which tells how far a bound is off.
        """
        if self.neighbours > _FEW_NEIGHBOURS:
            return None
        limits = {
            "memory_limit": min(_MEMORY, budget.memory // 4),
            "most_total_entries": _SMALL_TABLES,
        }
        upper, order = best_order(self.reduced, **limits)
        if (upper - log_partition) / _GAIN > LARGEST_GAP:
            return None
        return TightMessages.build(self.reduced, order, **limits)

    def drawn(
        self, sampler: MessageSampler, num_samples: int, size: int, generator: torch.Generator
    ) -> WeightedSamples | None:
        """Samples from messages, in groups of a size; without zeros only the bound counts."""
        drawn = sampler.draw(-(-num_samples // size), size, generator)
        return self.samples(drawn, "messages", size, sampler.upper, not self.has_zeros)

    def samples(
        self,
        drawn: tuple[torch.Tensor, torch.Tensor],
        method: str,
        group_size: int = 1,
        upper: float = math.inf,
        is_certain: bool = False,
    ) -> WeightedSamples | None:
        """Full states with weights, or nothing if all weights are zero."""
        states, log_weights = drawn
        dtype = torch.long if self.model.is_discrete else torch.float64
        shape = (len(states), self.model.num_variables)
        full = torch.zeros(shape, dtype=dtype, device=states.device)
        for variable, state in self.observed.items():
            full[:, variable] = state
        full[:, list(self.free)] = states.to(dtype)
        rest = self.observed, group_size, method, upper, is_certain
        found = WeightedSamples(self.model, full, log_weights, *rest)
        return found if found.is_possible else None


@dataclass(frozen=True)
class _Warm:
    """Messages that chains can start from: at any temperature, and how far their bound is off."""

    at: Callable[[float], MessageSampler]
    gap: float
    is_tight: bool = False


def _by_messages(
    asked: _Posterior, num_samples: int, generator: torch.Generator, budget: Budget
) -> tuple[WeightedSamples | None, _Warm | None]:
    """Draw from messages, tightened if need be; chains may start from the same."""
    begun = time.perf_counter()
    try:
        sampler = asked.messages(budget)
    except NotAffordableError:
        return None, None
    found = None
    for size in (1, _GROUP_SIZE) if asked.has_zeros else (1,):
        if time.perf_counter() - begun > budget.seconds_left:  # it would take as long again
            break
        found = _seeing_most(found, asked.drawn(sampler, num_samples, size, generator))
        if _is_enough(found):
            break
    if found is None or _is_enough(found):
        return found, None
    log_partition = found.estimate.log_partition
    warm = _Warm(partial(asked.messages, budget), sampler.upper - log_partition)
    most = min(_MOST_DRAWS * num_samples, _affordable(asked.model, budget))
    if (count := _draws_for(warm.gap)) <= most and not asked.has_zeros:
        return _seeing_most(found, asked.drawn(sampler, count, 1, generator)), warm
    if _TIGHTENING * (time.perf_counter() - begun) > budget.seconds_left:
        return found, warm
    try:
        with budget.watched("the second opinion"):
            tight = asked.tightened(budget, log_partition)
            tighter = None if tight is None else tight.at()
    except (NotAffordableError, TimeLimitError):
        tight = tighter = None
    if tight is None or tighter is None:
        return found, warm
    warm = _Warm(tight.at, tighter.upper - log_partition, is_tight=True)
    count = min(max(num_samples, _draws_for(warm.gap)), most)
    return _seeing_most(found, asked.drawn(tighter, count, 1, generator)), warm


def _draws_for(gap: float) -> int:
    """Draws from messages that hit the wanted share for certain, with something to spare."""
    return round(1.2 * DRAWS_TO_FIND * math.exp(min(gap, 30.0)) / WANTED_SHARE)


def _enough_of(num_samples: int) -> float:
    """Effective samples that are enough."""
    enough = max(_WANTED_EFFECTIVE * num_samples, DRAWS_TO_FIND / WANTED_SHARE)
    return min(enough, _MOST_EFFECTIVE * num_samples)


def _affordable(model: FactorGraph, budget: Budget) -> int:
    """Samples that fit into memory."""
    return budget.memory // 2 // (_BYTES_PER_VALUE * max(model.num_variables, 1))


def _by_chains(
    asked: _Posterior,
    num_samples: int,
    generator: torch.Generator,
    budget: Budget,
    warm: _Warm | None,
) -> WeightedSamples | None:
    """Cool chains, from messages where there are some: those of the model itself tell how far."""
    work = _WORK if warm is None or not warm.is_tight else _WORK_AFTER_TIGHTENING
    work = min(work * max(num_samples / CHECK_SAMPLES, 1.0), 1e9 * budget.seconds_left / 2)
    watch = budget.watching("the second opinion")
    kernel = GibbsKernel(asked.reduced)
    start = MessageStart(kernel)
    try:
        if warm is not None:
            likely = LARGEST_GAP / max(warm.gap, LARGEST_GAP)
            start = MessageStart.coldest(kernel, generator, warm.at, likely, watch)
        pilot = start.draw(PILOT_CHAINS, generator)
        wanted = _enough_of(num_samples)
        plan = planned(kernel, pilot, work, num_samples, wanted, generator, watch)
        chains = start.draw(plan.num_chains, generator)
        cooled = cool(kernel, chains, plan.betas, plan.num_sweeps, generator, watch, may_meet=True)
    except TimeLimitError:
        return None
    return asked.samples(cooled.families(generator), "annealed chains")
