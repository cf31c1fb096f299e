"""A second opinion on a sampled answer, by weighted samples that owe nothing to q.

Weights of q tell of their own unevenness and of nothing else: a q that lost a mode has perfect
weights, and so have particles that all went one way. So each sampled answer is held against another
set of weighted samples of the same posterior:

- *messages*: states drawn from weighted mini-bucket messages
  (:mod:`deltaai.messages.mini_buckets.sampling`), in tables of a bounded size. Their weights have a
  ceiling exp(U), so each draw hits a part of p of share m with probability at least m Z / exp(U),
  whatever that part is. Nothing else is claimed for them: in peaked models messages can go one way,
  and have even weights. Only where zeros leave no other way do weights count, and particles are
  resampled where messages lose too much.
- *annealed chains* (:mod:`deltaai.mcmc.annealed`), where messages have too little
  to say: in dense models, and in peaked ones of many states. They start from messages of a
  flattened model, where these are good, and are cooled from there.

What an opinion can see follows from its own effective number or from its ceiling
(:attr:`~deltaai.trust.weighted.WeightedSamples.visible_share`). An effective number is itself
an estimate: chains that all miss a part which was cut off while they were cooled do not know of it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property, partial

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
from deltaai.messages import MessageSampler
from deltaai.models import FactorGraph, has_zeros
from deltaai.trust.weighted import WeightedSamples

CHECK_SAMPLES = 4000
# Parts of p of this share should be seen; where messages do not, more is tried.
WANTED_SHARE = 0.05
# Entries of all tables of messages: some tenths of a second, and a few hundred megabytes at most.
_MOST_ENTRIES, _MEMORY = 2**24, 2**29
_MOST_NEIGHBOURS = 64  # of a variable on average; with more, messages are slow and say nothing
_BYTES_PER_VALUE = 48  # of one variable in one sample, in all copies of it
_GROUP_SIZE = 32  # particles that are resampled together
# Nanoseconds that chains may take, roughly, and the share of samples that is enough if effective.
_WORK, _WANTED_EFFECTIVE = 2.1e9, 0.1


def second_opinion(
    model: FactorGraph,
    observed: dict[int, int],
    generator: torch.Generator,
    *,
    num_samples: int = CHECK_SAMPLES,
    budget: Budget | None = None,
) -> WeightedSamples | None:
    """Form an opinion on the posterior given evidence; none if nothing can be said.

    Parameters
    ----------
    model : the target, in double precision.
    observed : observed variables and their states.
    num_samples : samples of the opinion; more see smaller parts.
    budget : what it may use; what would take more is left out.
    """
    budget = Budget.of() if budget is None else budget
    bytes_each = _BYTES_PER_VALUE * max(model.num_variables, 1)
    num_samples = min(num_samples, budget.memory // 2 // bytes_each)
    if num_samples < 1 or budget.is_over:
        return None
    left = Remainder.given(model, observed)
    asked = _Posterior(model, left.reduced, left.free, observed)
    found = None
    is_sparse = left.reduced.markov_graph().num_edges <= _MOST_NEIGHBOURS / 2 * len(left.free)
    if is_sparse:
        found = _by_messages(asked, num_samples, generator, budget)
    if (found is None or found.visible_share > WANTED_SHARE) and not asked.has_zeros:
        other = _by_chains(asked, num_samples, generator, budget, found)
        if found is None or (other is not None and other.visible_share < found.visible_share):
            found = other
    return found


@dataclass(frozen=True, eq=False)
class _Posterior:
    """A question: the model, what evidence leaves of it, and which variables that is."""

    model: FactorGraph
    reduced: FactorGraph
    free: tuple[int, ...]
    observed: dict[int, int]

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some states are impossible, where chains may be lost."""
        return has_zeros(self.reduced)

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
        full = torch.zeros(
            len(states), self.model.num_variables, dtype=torch.long, device=states.device
        )
        for variable, state in self.observed.items():
            full[:, variable] = state
        full[:, list(self.free)] = states
        rest = self.observed, group_size, method, upper, is_certain
        found = WeightedSamples(self.model, full, log_weights, *rest)
        return found if found.is_possible else None


def _by_messages(
    asked: _Posterior, num_samples: int, generator: torch.Generator, budget: Budget
) -> WeightedSamples | None:
    start = time.perf_counter()
    try:
        sampler = asked.messages(budget)
    except NotAffordableError:
        return None
    found = None
    for size in (1, _GROUP_SIZE) if asked.has_zeros else (1,):
        if time.perf_counter() - start > budget.seconds_left:  # it would take as long again
            break
        drawn = sampler.draw(-(-num_samples // size), size, generator)
        tried = asked.samples(drawn, "messages", size, sampler.upper, not asked.has_zeros)
        if tried is not None and (found is None or tried.effective > found.effective):
            found = tried
        if found is not None and found.visible_share <= WANTED_SHARE:
            break
    return found


def _by_chains(
    asked: _Posterior,
    num_samples: int,
    generator: torch.Generator,
    budget: Budget,
    messages: WeightedSamples | None,
) -> WeightedSamples | None:
    """Cool chains, from messages where there are some: those of the model itself tell how far."""
    work = min(_WORK * max(num_samples / CHECK_SAMPLES, 1.0), 1e9 * budget.seconds_left / 2)
    watch = budget.watching("the second opinion")
    kernel = GibbsKernel(asked.reduced)
    start = MessageStart(kernel)
    try:
        if messages is not None:
            gap = messages.upper - messages.estimate.log_partition
            likely = LARGEST_GAP / max(gap, LARGEST_GAP)
            at_beta = partial(asked.messages, budget)
            start = MessageStart.coldest(kernel, generator, at_beta, likely, watch)
        pilot = start.draw(PILOT_CHAINS, generator)
        wanted = _WANTED_EFFECTIVE * num_samples
        plan = planned(kernel, pilot, work, num_samples, wanted, generator, watch)
        begun = start.draw(plan.num_chains, generator)
        states, increments = cool(kernel, begun, plan.betas, plan.num_sweeps, generator, watch)
    except TimeLimitError:
        return None
    return asked.samples((states, begun.log_weights + increments.sum(0)), "annealed chains")
