"""What an elimination order does to a graph, before any table exists.

Eliminating v joins its later neighbours, so v's *front* is the set of later vertices it is joined
to by then, and {v} with its front is a clique of the chordal completion. The fronts follow from
the order by one pass: the front of v holds v's own later neighbours and the fronts of the
vertices whose first later neighbour is v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from deltaai.errors import GraphError, NotAffordableError, TimeLimitError
from deltaai.graphs.orders import (
    Order,
    maximum_cardinality_order,
    min_fill_order,
    min_weight_order,
    sweep_order,
)
from deltaai.graphs.undirected import UndirectedGraph
from deltaai.watch import at_most, look

# No lucky tie-break brings tables of this many entries within reach of any machine.
_LOG2_HOPELESS = 42
# Random orders that are tried in any case, and how many times more entries (log2) than the best
# order the best of them may have for more to be worth trying.
_PATIENCE, _FAR = 8, 4
# Denser graphs are too wide for exact inference in any order, so planning need not be thorough.
_MOST_MIN_FILL_WORK = 20_000_000
_BYTES_PER_ENTRY = 8  # of a front
_SEARCH_SHARE = 0.3  # of the time that is left, once there is an order at all


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order with the fronts it gives.

    Parameters
    ----------
    order : the vertices, first eliminated first.
    fronts : for each vertex, the later vertices it is joined to when eliminated, in order.
    """

    order: Order
    fronts: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """Size of the largest front: the induced width."""
        return max((len(front) for front in self.fronts), default=0)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """First vertex of each front, -1 where it is empty: the elimination forest."""
        return tuple(front[0] if front else -1 for front in self.fronts)

    def edges(self) -> np.ndarray:
        """Edges of the chordal completion."""
        lengths = [len(front) for front in self.fronts]
        sources = np.repeat(np.arange(len(self.fronts)), lengths)
        targets = np.fromiter(chain.from_iterable(self.fronts), np.int64, sum(lengths))
        return np.stack((sources, targets), axis=1)

    def log2_table_sizes(self, num_states: Sequence[int]) -> np.ndarray:
        """Log2 of the number of joint states of each vertex and its front."""
        log_states = [math.log2(size) for size in num_states]

        def log_size(vertex: int, front: tuple[int, ...]) -> float:
            look()
            return log_states[vertex] + sum(log_states[other] for other in front)

        return np.array([log_size(v, front) for v, front in enumerate(self.fronts)])

    def cost(self, num_states: Sequence[int]) -> tuple[float, float]:
        """Log2 of the entries of all tables together, and of the largest: lower is better."""
        log_sizes = self.log2_table_sizes(num_states)
        if not len(log_sizes):
            return (0.0, 0.0)
        top = float(log_sizes.max())
        return (top + math.log2(np.exp2(log_sizes - top).sum()), top)


def eliminate(graph: UndirectedGraph, order: Iterable[int]) -> Elimination:
    """Find the fronts that an order gives.

    >>> square = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> eliminate(square, (0, 1, 2, 3)).fronts
    ((1, 3), (2, 3), (3,), ())
    """
    found = _eliminated(graph, tuple(order))
    assert found is not None
    return found


def _eliminated(
    graph: UndirectedGraph, order: Order, most_entries: int | None = None
) -> Elimination | None:
    """The fronts that an order gives, or nothing if they have more entries than they may."""
    num_vertices = graph.num_vertices
    rank = [-1] * num_vertices
    for position, vertex in enumerate(order):
        if not 0 <= vertex < num_vertices or rank[vertex] >= 0:
            raise GraphError(f"an elimination order names each vertex once; see {vertex}")
        rank[vertex] = position
    if len(order) != num_vertices:
        raise GraphError(f"the order has {len(order)} of the graph's {num_vertices} vertices")

    fronts: list[tuple[int, ...]] = [()] * num_vertices
    inherited: list[set[int]] = [set() for _ in range(num_vertices)]  # by rank
    num_entries = 0
    for position, vertex in enumerate(order):
        front = inherited[position]
        front.update(rank[other] for other in graph.neighbours(vertex) if rank[other] > position)
        front.discard(position)
        num_entries += len(front)
        if most_entries is not None and num_entries > most_entries:
            return None
        look(_BYTES_PER_ENTRY * num_entries)
        ranks = sorted(front)
        fronts[vertex] = tuple(order[later] for later in ranks)
        if ranks:
            heir = inherited[ranks[0]]
            if len(heir) < len(front):  # keep the larger set, add the smaller one to it
                inherited[ranks[0]] = front
                front.update(heir)
            else:
                heir.update(front)
        inherited[position] = set()
    return Elimination(order, tuple(fronts))


def best_elimination(
    graph: UndirectedGraph,
    num_states: Sequence[int],
    *,
    most_tries: int = 64,
    enough: float | int = -math.inf,
    seed: int = 0,
) -> Elimination:
    """Try several orders and keep the one whose tables have the fewest entries in total.

    A chordal graph is eliminated perfectly. Otherwise the sweep, min-weight and min-fill are
    tried (no min-fill on large dense graphs), then both greedy rules with random tie-breaks: a
    try for every million entries of the best order so far, up to ``most_tries``, so that planning
    takes a fraction of the time of what is planned. Where the first of them are all far behind the
    best, as behind the sweep on wide lattices, there are no more. Under a watch
    (:mod:`deltaai.watch`) they stop when a share of the time is over, and the best order so far is
    kept. An order whose tables have ``enough`` entries (log2) or fewer is not improved.
    """
    perfect = _perfect(graph)
    if perfect is not None:
        return perfect  # no order has smaller cliques
    rng = np.random.default_rng(seed)
    is_sparse = _min_fill_work(graph) <= _MOST_MIN_FILL_WORK
    found = _Found(graph, num_states)
    with at_most(_SEARCH_SHARE):
        if found.try_order(lambda: min_weight_order(graph, num_states)) <= enough:
            return found.best
        if is_sparse:
            found.try_order(lambda: min_fill_order(graph))
        found.try_order(lambda: sweep_order(graph))  # whose fronts are large in large graphs
        tries, nearest = 0, math.inf
        while is_sparse and tries < worthwhile_tries(found.cost[0], most_tries):
            if tries >= _PATIENCE and nearest > found.cost[0] + _FAR:
                break
            tries += 1
            if tries % 2:
                cost = found.try_order(lambda: min_fill_order(graph, rng))
            else:
                cost = found.try_order(lambda: min_weight_order(graph, num_states, rng))
            nearest = min(nearest, cost)
    return found.best


class _Found:
    """The best of the orders that were tried."""

    def __init__(self, graph: UndirectedGraph, num_states: Sequence[int]) -> None:
        self._graph, self._num_states = graph, num_states
        self._best: Elimination | None = None
        self.cost = (math.inf, math.inf)

    @property
    def best(self) -> Elimination:
        """The best one; if none was ready in its share of the time, one that takes all of it."""
        if self._best is None:
            return eliminate(self._graph, min_weight_order(self._graph, self._num_states))
        return self._best

    def try_order(self, rule: Callable[[], Order]) -> float:
        """Keep what an order gives if it is better; one whose fronts do not fit is none.

        Returns log2 of the entries of its tables.
        """
        try:
            tried = eliminate(self._graph, rule())
        except TimeLimitError:
            raise
        except NotAffordableError:
            return math.inf
        cost = tried.cost(self._num_states)
        if self._best is None or cost < self.cost:
            self._best, self.cost = tried, cost
        return cost[0]


def _perfect(graph: UndirectedGraph) -> Elimination | None:
    """An elimination that joins nothing, if there is one: the graph is chordal then."""
    return _eliminated(graph, maximum_cardinality_order(graph), graph.num_edges)


def worthwhile_tries(log2_entries: float, most_tries: int) -> int:
    """Random orders to try before an order is used: one for every million entries of its tables.

    >>> path = eliminate(UndirectedGraph.from_edges(3, [(0, 1), (1, 2)]), (0, 1, 2))
    >>> [worthwhile_tries(path.cost([states] * 3)[0], 64) for states in (10, 1500, 10**5)]
    [0, 4, 64]
    """
    if log2_entries > _LOG2_HOPELESS:
        return 0
    return min(int(2.0**log2_entries) >> 20, most_tries)


def _min_fill_work(graph: UndirectedGraph) -> int:
    """Set operations to count the missing edges around every vertex, to begin with."""
    degree = np.diff(graph.offsets)
    return int((degree * degree).sum())
