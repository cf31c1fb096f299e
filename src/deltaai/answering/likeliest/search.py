"""Search for a most likely state where tables do not fit, and bound how likely one can be.

At an inverse temperature β mini-bucket messages are those of p^β, and the colder they are, the more
their draws are the greedy states that max-product mini-buckets would give. Their upper bound holds
for the maximum, too, since the largest term of a sum is no more than the sum:

    β max_x log p~(x) ≤ log Z(β) ≤ U(β),      so      max log p~ ≤ U(β) / β      for every β.

What was drawn is moved on by Gibbs sweeps that are cooled and warmed again, all states at once, and
the best state ever seen is kept. If it meets the bound, nothing is better.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import NotAffordableError, TimeLimitError
from deltaai.graphs import eliminate, min_fill_order
from deltaai.mcmc import GibbsKernel
from deltaai.messages import MessageSampler, TightMessages
from deltaai.models import FactorGraph, States, has_zeros, tempered
from deltaai.randomness import uniform

_NOTHING = 1e-5  # nats between a state and its bound that are called none
# Inverse temperatures of messages, relative to that at which a flip changes the score by one nat;
# states drawn at each, kept of all, and moved.
_COLDNESS = (3.0, 30.0, 1e7)
_DRAWN, _MOVED = 100, 64
_ENTRIES, _MEMORY_SHARE = 2**21, 4
# Tightening: at which coldness, entries of all tables, and evaluations of the bound; the second
# only if the first comes within the change of so many flips.
_SECONDS_PER_ENTRY, _SECONDS_PER_BUCKET = 2e-7, 4e-4  # of an evaluation
_TIGHTENINGS, _NEAR = ((30.0, 2**20, 60), (1e4, 2**18, 150)), 1.0
# Cooling: sweeps in a round, from which coldness to which, and rounds without a better state that
# are enough; seconds in all, if there is no limit.
_SWEEPS, _WARM, _COLD = 60, 0.7, 30.0
_FRUITLESS, _SECONDS = 25, 60.0
_BOUND_SHARE = 0.4  # of the time, for messages and bound

Report = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Found:
    """The best state that was seen, its log score, and what no log score exceeds."""

    state: Int[Tensor, "var"]
    log_score: float
    upper: float


def is_met(log_score: float, upper: float) -> bool:
    """Whether a bound leaves nothing to be found, but for 1e-5 nats, however large scores are.

    >>> is_met(3.0, 3.0 + 1e-7), is_met(3.0, 3.01), is_met(1e5, 1e5 + 1e-3)
    (True, False, False)
    """
    return upper - log_score <= _NOTHING + 1e-13 * abs(log_score)


class _Best:
    """The best of all states seen so far."""

    def __init__(self, model: FactorGraph) -> None:
        self._model = model
        self.state: Int[Tensor, "var"] | None = None
        self.log_score = -math.inf

    def see(self, states: States) -> Float64[Tensor, "batch"]:
        """Look at some states; their log scores."""
        scores = self._model.log_score(states).double()
        place = int(scores.argmax())
        if self.state is None or float(scores[place]) > self.log_score:
            self.state, self.log_score = states[place].clone(), float(scores[place])
        return scores


@torch.no_grad()
def search(
    model: FactorGraph, budget: Budget, generator: torch.Generator, report: Report | None
) -> Found:
    """Search for a most likely state of a model of states, within limits.

    Parameters
    ----------
    model : the target, without evidence, in double precision; it has variables.
    report : called with the fraction done; if it raises ``TimeLimitError``, what was found is
        returned.

    Raises
    ------
    NotAffordableError
        If no possible state was found.
    """
    begun = time.perf_counter()
    end = begun + min(_SECONDS, budget.seconds_left)
    best, upper, pool = _Best(model), math.inf, list[States]()
    scale = 1.0 / _change_of_a_flip(model)

    def told(share: float) -> None:
        if report is not None:
            report(min(share, 1.0))

    with suppress(TimeLimitError):
        until = begun + _BOUND_SHARE * (end - begun)
        for number, coldness in enumerate(_COLDNESS):
            told(_BOUND_SHARE * number / len(_COLDNESS))
            try:
                sampler = _messages(model, coldness * scale, budget)
            except NotAffordableError:
                break
            upper = min(upper, sampler.upper / (coldness * scale))
            states, log_weights = sampler.draw(_DRAWN, 1, generator)
            pool.append(states[log_weights > -math.inf])
            if len(pool[-1]):
                best.see(pool[-1])
            if is_met(best.log_score, upper) or time.perf_counter() > until:
                break
        if math.isfinite(upper) and not is_met(best.log_score, upper):
            for coldness, entries, most in _TIGHTENINGS:
                each = _SECONDS_PER_ENTRY * entries + _SECONDS_PER_BUCKET * model.num_variables
                count = min(int((until - time.perf_counter()) / each), most)
                if count < 1:
                    break
                tightening = coldness, entries, count
                tight, states = _tightened(model, tightening, scale, budget, generator)
                upper = min(upper, tight)
                if len(states):
                    best.see(states)
                    pool.append(states)
                is_near = upper - best.log_score < _NEAR / scale
                if not is_near or is_met(best.log_score, upper):
                    break
        if not is_met(best.log_score, upper):
            _move(model, _chosen(model, pool, generator), best, upper, scale, end, generator, told)
    if best.state is None or best.log_score == -math.inf:
        raise NotAffordableError(
            "no possible state was found: raise the limits, or choose method 'toulbar2'"
        )
    return Found(best.state, best.log_score, max(upper, best.log_score))


def _messages(model: FactorGraph, beta: float, budget: Budget) -> MessageSampler:
    memory = budget.memory // _MEMORY_SHARE
    return MessageSampler.build(model, memory_limit=memory, most_total_entries=_ENTRIES, beta=beta)


def _tightened(
    model: FactorGraph,
    tightening: tuple[float, int, int],
    scale: float,
    budget: Budget,
    generator: torch.Generator,
) -> tuple[float, States]:
    """The bound of cold messages when shifts and weights have been moved along its slopes.

    Colder still with the same shifts, what is left of it is no more than what was split. States
    that were drawn there come with it.
    """
    coldness, entries, iterations = tightening
    beta = coldness * scale
    order = eliminate(model.markov_graph(), min_fill_order(model.markov_graph()))
    upper, states = math.inf, torch.zeros(0, model.num_variables, dtype=torch.long, device="cpu")
    with suppress(NotAffordableError), budget.watched("the bound"):
        tight = TightMessages.build(
            tempered(model, beta),
            order,
            memory_limit=budget.memory // _MEMORY_SHARE,
            most_total_entries=entries,
            num_iterations=iterations,
        )
        upper = tight.upper / beta
        colder = _COLDNESS[-1] / coldness
        sampler = tight.at(colder)
        upper = min(upper, sampler.upper / (beta * colder))
        drawn, log_weights = sampler.draw(_DRAWN, 1, generator)
        states = drawn[log_weights > -math.inf]
    return upper, states


def _change_of_a_flip(model: FactorGraph) -> float:
    """Mean finite change of the log score by one flip, at uniform states."""
    generator = torch.Generator().manual_seed(0)
    shape = (64, model.num_variables)
    chance = uniform(shape, generator, dtype=torch.float64, device=model.device)
    ratios = model.log_ratios((chance * model.num_states).long()).double().abs()
    ratios = ratios[ratios.isfinite() & (ratios > 0)]
    return max(float(ratios.mean()), 1e-9) if len(ratios) else 1.0


def _chosen(
    model: FactorGraph, pool: list[States], generator: torch.Generator
) -> Int[Tensor, "chosen var"]:
    """The best of what was drawn, each once, and random states where zeros allow any."""
    none = torch.zeros(0, model.num_variables, dtype=torch.long, device=model.device)
    drawn = torch.cat([none, *pool])
    if len(drawn):
        drawn = torch.unique(drawn, dim=0)
        scores = model.log_score(drawn).double()
        drawn = drawn[scores.argsort(descending=True)[:_MOVED]]
        drawn = drawn[model.log_score(drawn) > -math.inf]
    if len(drawn) < _MOVED and not has_zeros(model):
        shape = (_MOVED - len(drawn), model.num_variables)
        more = uniform(shape, generator, dtype=torch.float64, device=model.device)
        drawn = torch.cat([drawn, (more * model.num_states).long()])
    return drawn


def _move(
    model: FactorGraph,
    states: States,
    best: _Best,
    upper: float,
    scale: float,
    end: float,
    generator: torch.Generator,
    told: Report,
) -> None:
    """Cool states in rounds; the better half of a round begins the next, twice."""
    if not len(states):
        return
    begun, kernel, fruitless = time.perf_counter(), GibbsKernel(model), 0
    betas = np.geomspace(_WARM * scale, _COLD * scale, _SWEEPS).tolist()
    while fruitless < _FRUITLESS:
        before, chains = best.log_score, kernel.init(len(states), generator, states=states)
        for beta in betas:
            chains, _ = kernel.step(chains, generator, beta)
            now = time.perf_counter()
            told(_BOUND_SHARE + (1 - _BOUND_SHARE) * (now - begun) / max(end - begun, 1e-9))
            if now > end:
                break
        scores = best.see(chains.states)
        if is_met(best.log_score, upper) or time.perf_counter() > end:
            return
        fruitless = fruitless + 1 if best.log_score <= before else 0
        order = scores.argsort(descending=True)[: -(-len(states) // 2)]
        states = chains.states[order.repeat(2)[: len(states)]]
