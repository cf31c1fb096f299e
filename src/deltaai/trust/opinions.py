"""A second opinion on a sampled answer, by weighted samples that owe nothing to q.

Weights of q tell of their own unevenness and of nothing else: a q that lost a mode has perfect
weights, and so have particles that all went one way. So each sampled answer is held against another
set of weighted samples of the same posterior:

- *messages*: states drawn from weighted mini-bucket messages
  (:mod:`deltaai.messages.mini_buckets.sampling`), in tables of a bounded size. Their weights have a
  ceiling exp(U), so each draw hits a part of p of share m with probability at least m Z / exp(U),
  whatever that part is. Where messages lose too much, particles are resampled on the way.
- *annealed chains* (:mod:`deltaai.mcmc.annealed`), where messages have too little
  to say: in dense models of weak factors.

What an opinion can see follows from its own effective number and from its ceiling
(:attr:`~deltaai.trust.weighted.WeightedSamples.visible_share`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from deltaai.budget import Budget
from deltaai.errors import NotAffordableError, TimeLimitError
from deltaai.exact import without_fixed
from deltaai.mcmc import annealed_importance
from deltaai.messages import MessageSampler
from deltaai.models import FactorGraph, has_zeros
from deltaai.trust.weighted import WeightedSamples

CHECK_SAMPLES = 4000
# Parts of p of this share should be seen; where messages do not, more is tried.
WANTED_SHARE = 0.05
# Entries of all tables of messages: some tenths of a second, and some megabytes.
_MOST_ENTRIES, _MEMORY = 2**20, 2**28
_MOST_NEIGHBOURS = 64  # of a variable on average; with more, messages are slow and say nothing
_BYTES_PER_VALUE = 48  # of one variable in one sample, in all copies of it
_GROUP_SIZE = 32  # particles that are resampled together
# Chains, most temperatures, and most entries of factors that all chains look up: a few seconds.
_CHAINS, _MOST_TEMPERATURES, _MOST_LOOKUPS = 200, 1000, 4 * 10**8


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
    reduced, free = without_fixed(model, model.named_evidence(observed))
    asked = _Posterior(model, reduced, free, observed)
    found = None
    if reduced.markov_graph().num_edges <= _MOST_NEIGHBOURS / 2 * reduced.num_variables:
        found = _by_messages(asked, num_samples, generator, budget)
    if (found is None or found.visible_share > WANTED_SHARE) and not has_zeros(reduced):
        other = _by_chains(asked, min(_CHAINS, num_samples), generator, budget)
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

    def samples(
        self,
        drawn: tuple[torch.Tensor, torch.Tensor],
        method: str,
        group_size: int = 1,
        upper: float = math.inf,
    ) -> WeightedSamples | None:
        """Full states with weights, or nothing if all weights are zero."""
        states, log_weights = drawn
        full = torch.zeros(
            len(states), self.model.num_variables, dtype=torch.long, device=states.device
        )
        for variable, state in self.observed.items():
            full[:, variable] = state
        full[:, list(self.free)] = states
        rest = self.observed, group_size, method, upper
        found = WeightedSamples(self.model, full, log_weights, *rest)
        return found if found.is_possible else None


def _by_messages(
    asked: _Posterior, num_samples: int, generator: torch.Generator, budget: Budget
) -> WeightedSamples | None:
    start = time.perf_counter()
    memory = min(_MEMORY, budget.memory // 4)
    try:
        sampler = MessageSampler.build(
            asked.reduced, memory_limit=memory, most_total_entries=_MOST_ENTRIES
        )
    except NotAffordableError:
        return None
    found = None
    for size in (1, _GROUP_SIZE):
        if time.perf_counter() - start > budget.seconds_left:  # it would take as long again
            break
        drawn = sampler.draw(-(-num_samples // size), size, generator)
        tried = asked.samples(drawn, "messages", size, sampler.upper)
        if tried is not None and (found is None or tried.effective > found.effective):
            found = tried
        if found is not None and found.visible_share <= WANTED_SHARE:
            break
    return found


def _by_chains(
    asked: _Posterior, num_chains: int, generator: torch.Generator, budget: Budget
) -> WeightedSamples | None:
    groups = asked.reduced.groups
    lookups = num_chains * sum(group.num_factors * sum(group.sizes) for group in groups)
    num_temperatures = min(_MOST_LOOKUPS // max(lookups, 1), _MOST_TEMPERATURES)
    if num_temperatures < 1:
        return None
    watch = budget.watching("the second opinion")
    try:
        drawn = annealed_importance(asked.reduced, num_chains, num_temperatures, generator, watch)
    except TimeLimitError:
        return None
    return asked.samples(drawn, "annealed chains")
