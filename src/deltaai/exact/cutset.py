"""Which variables to condition on, so that what is left fits the memory.

Fixing a variable u of k states takes it out of the graph: every clique table that held it has k
times fewer entries, and all has to be done k times. A *cutset* C is a set of variables such that
the model with C fixed fits. It is found greedily. Step by step the variable is taken that lowers
the entries of all tables most for what it costs,

    (log2 entries before - log2 entries after) / log2 k,

which is at most 1 (time does not grow) unless a better order is found on the way. Only variables
that make up most of the large cliques are tried. In the end, those that are not needed any more
are put back, to be eliminated last: often that is a better order than any found at the start, and
the cutset may end up empty although the usual order does not fit.

The search is bounded by counted work, not by a clock, so that it ends with the same cutset on every
machine. Nothing is computed or allocated here: see :mod:`deltaai.exact.conditioning`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deltaai.exact.memory import ExactCost, exact_cost
from deltaai.graphs import (
    Elimination,
    UndirectedGraph,
    best_elimination,
    eliminate,
    worthwhile_tries,
)
from deltaai.models import FactorGraph, propagate_zeros

_CANDIDATES = 8  # variables tried at each step
# Random orders: at the start, after each step, and for each candidate. Fewer where less is at stake
# (see best_elimination), and candidates of large graphs are judged by the order of before.
_TRIES_FIRST, _TRIES_STEP, _TRIES_CANDIDATE = 64, 128, 16
_LARGE_GRAPH = 20_000  # vertices and edges
# Given up if fixing all that may be fixed divides memory by too little, even with better orders.
_LUCK = 16
# Greedy orders that are tried in any case; and vertices and edges of completions, all orders
# together, that are worked through in a second.
_GREEDY_ORDERS = 4
# If fewer orders than this are left, fewer are tried each time, so that some are left to the end.
_UNHURRIED = 1024
WORK_PER_SECOND = 500_000


@dataclass(frozen=True)
class Cutset:
    """Variables to condition on.

    Parameters
    ----------
    variables : their names, the most useful first.
    num_states : joint states of them, without the single states that zeros rule out.
    cost : of the model with these variables fixed, at one joint state.
    total_entries : of all tables at all joint states together; time is proportional to it. Zeros
        may make it far less.
    order : the elimination order behind the cost, as names.
    """

    variables: tuple[str, ...]
    num_states: int
    cost: ExactCost
    total_entries: int
    order: tuple[str, ...] = field(repr=False)


def find_cutset(
    model: FactorGraph,
    memory_limit: int,
    most_states: int = 4096,
    *,
    most_entries: float | int = math.inf,
    time_limit: float | int = math.inf,
    search_seconds: float | int = math.inf,
    elimination: Elimination | None = None,
) -> Cutset | None:
    """Find variables such that the model with these fixed fits the memory.

    Parameters
    ----------
    model : the target; condition it first if there is evidence.
    memory_limit : bytes the tables may take.
    most_states : joint states of the cutset that are still worth the time.
    most_entries : entries of all tables at all joint states that are.
    time_limit : seconds to search; what is found may then depend on the machine.
    search_seconds : the same roughly, in work that is counted: what is found does not depend on
        the machine.
    elimination : an order for the model as :func:`propagate_zeros` leaves it, if one is known.

    Returns
    -------
    The cutset, empty if the model fits as it is, or ``None`` if none was found with so few joint
    states. The search is greedy: there may be one all the same.

    Raises
    ------
    ImpossibleEvidenceError
        If zeros contradict each other, as far as :func:`propagate_zeros` sees it.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    >>> cutset = find_cutset(model, memory_limit=40_000)
    >>> cutset.num_states == 2 ** len(cutset.variables), cutset.cost.peak_bytes <= 40_000
    (True, True)
    >>> find_cutset(model, memory_limit=40_000, most_states=2) is None
    True
    """
    start = time.perf_counter()
    possible = propagate_zeros(model).model
    return cutset_of(
        possible,
        memory_limit,
        most_states,
        most_entries=most_entries,
        time_limit=time_limit - (time.perf_counter() - start),
        search_seconds=search_seconds,
        elimination=elimination if possible is model else None,
    )


def cutset_of(
    model: FactorGraph,
    memory_limit: int,
    most_states: int = 4096,
    *,
    most_entries: float | int = math.inf,
    time_limit: float | int = math.inf,
    search_seconds: float | int = math.inf,
    elimination: Elimination | None = None,
) -> Cutset | None:
    """Search like :func:`find_cutset`, in a model whose zeros have been propagated."""
    start = time.perf_counter()
    graph, states = model.markov_graph(), model.num_states.tolist()
    everything = tuple(range(len(states)))
    if elimination is None:
        elimination = best_elimination(graph, states, most_tries=_TRIES_FIRST)
    budget = _Budget(search_seconds * WORK_PER_SECOND)
    part = _Rest(graph, states, memory_limit, everything, elimination, budget)
    chosen: list[int] = []
    while not part.fits:
        num_states = math.prod(states[v] for v in chosen)
        states_left = most_states // num_states
        is_late = time.perf_counter() - start > time_limit or budget.is_spent
        if is_late or num_states * part.cost.total_entries > most_entries:
            return None
        if part.cost.peak_bytes > memory_limit * states_left * _LUCK:
            return None
        candidates = [v for v in part.largest_savings() if states[v] <= states_left]
        if not candidates:
            return None
        after = {v: part.without(v) for v in candidates[:_CANDIDATES] if not budget.is_spent}
        best = _best(part, after)
        part = after[best].searched(_TRIES_STEP)
        chosen.append(best)
    for variable in tuple(chosen):
        others = [v for v in chosen if v != variable]
        free = tuple(v for v in everything if v not in others)
        order = [*(free.index(part.free[v]) for v in part.elimination.order), free.index(variable)]
        larger = part.over(free, order).searched(_TRIES_STEP)
        if larger.fits:
            part, chosen = larger, others
    names = [variable.name for variable in model.variables]
    num_states = math.prod(states[v] for v in chosen)
    return Cutset(
        tuple(names[v] for v in chosen),
        num_states,
        part.cost,
        num_states * part.cost.total_entries,
        tuple(names[part.free[v]] for v in part.elimination.order),
    )


class _Budget:
    """Work that a search may still do."""

    def __init__(self, work: float | int) -> None:
        self._left = work

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def spend(self, elimination: Elimination, num_orders: int) -> None:
        """Take off so many orders like this one."""
        self._left -= num_orders * _size(elimination)

    def tries(self, elimination: Elimination, most: int) -> int:
        """Random orders to try now: so many, or fewer if not many like this one are left."""
        return int(most * min(max(self._left, 0) / _size(elimination) / _UNHURRIED, 1))


def _size(elimination: Elimination) -> int:
    """Vertices and edges of the completion: the work for one order is proportional to it."""
    return 1 + len(elimination.order) + sum(map(len, elimination.fronts))


class _Rest:
    """What is left of a graph when some vertices are taken out, with an elimination of it."""

    def __init__(
        self,
        whole: UndirectedGraph,
        states: Sequence[int],
        memory_limit: int,
        free: tuple[int, ...],
        elimination: Elimination,
        budget: _Budget,
    ) -> None:
        self._budget = budget
        self._whole, self.states, self._limit = whole, states, memory_limit
        self.free = free
        self.elimination = elimination  # numbered within `free`
        self._sizes = [states[v] for v in free]
        self.cost = exact_cost(elimination, self._sizes)

    @property
    def fits(self) -> bool:
        return self.cost.peak_bytes <= self._limit

    def over(self, free: tuple[int, ...], order: Sequence[int]) -> _Rest:
        """Return another part of the same graph."""
        elimination = eliminate(self._whole.induced(free), order)
        self._budget.spend(elimination, 1)
        return _Rest(self._whole, self.states, self._limit, free, elimination, self._budget)

    def without(self, variable: int) -> _Rest:
        """Take out one variable more; orders are searched for unless the graph is large."""
        place = self.free.index(variable)
        order = [v - (v > place) for v in self.elimination.order if v != place]
        smaller = self.over(self.free[:place] + self.free[place + 1 :], order)
        is_large = self._whole.num_vertices + self._whole.num_edges > _LARGE_GRAPH
        return smaller if is_large else smaller.searched(_TRIES_CANDIDATE)

    def searched(self, tries: int) -> _Rest:
        """Return the same part with a better order, if one is found."""
        if self._budget.is_spent:
            return self
        graph = self._whole.induced(self.free)
        most = self._budget.tries(self.elimination, tries)
        found = best_elimination(graph, self._sizes, most_tries=most)
        more = worthwhile_tries(found.cost(self._sizes)[0], most)
        self._budget.spend(found, _GREEDY_ORDERS + more)
        other = _Rest(self._whole, self.states, self._limit, self.free, found, self._budget)
        return min(self, other, key=lambda part: (not part.fits, part.cost.total_entries))

    def largest_savings(self) -> list[int]:
        """Variables by how many entries go if one is fixed and the order stays, most first."""
        log_sizes = self.elimination.log2_table_sizes(self._sizes)
        shares = np.exp2(log_sizes - log_sizes.max(initial=0.0))
        saved = np.zeros(len(self.free))
        for vertex, front in enumerate(self.elimination.fronts):
            saved[[vertex, *front]] += shares[vertex]
        saved *= 1.0 - 1.0 / np.array(self._sizes)
        return [self.free[place] for place in np.argsort(-saved, kind="stable").tolist()]


def _best(before: _Rest, after: dict[int, _Rest]) -> int:
    """Of those that make it fit the fastest one, else the one that lowers most for its states."""
    states = before.states
    fitting = [v for v, part in after.items() if part.fits]
    if fitting:
        return min(fitting, key=lambda v: states[v] * after[v].cost.total_entries)

    def gain(variable: int) -> float:
        entries = before.cost.total_entries, after[variable].cost.total_entries
        return (math.log2(entries[0]) - math.log2(max(entries[1], 1))) / math.log2(states[variable])

    return max(after, key=gain)
