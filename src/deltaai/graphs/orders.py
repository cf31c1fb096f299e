"""Elimination orders: which variable to remove next.

Removing a vertex joins all its neighbours. A good order joins few: the two greedy rules here
look one step ahead (`min-fill`: add the fewest edges; `min-weight`: make the smallest table), the
sweep goes through the graph layer by layer, which on grids beats both, and maximum cardinality
search is perfect on chordal graphs. No rule is best on all others, so
:func:`deltaai.graphs.elimination.best_elimination` tries several.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy  # its parts come when they are needed

from deltaai.graphs.undirected import UndirectedGraph
from deltaai.watch import look

Order = tuple[int, ...]

_BYTES_PER_NEIGHBOUR = 40  # of an entry of a set, roughly


def min_fill_order(
    graph: UndirectedGraph,
    rng: np.random.Generator | None = None,
    last: Iterable[int] = (),
) -> Order:
    """Eliminate next the vertex whose removal adds the fewest edges.

    Parameters
    ----------
    rng : decides ties.
    last : vertices that go after all others.

    The number of missing edges around each vertex is kept up to date as edges come and vertices
    go, so a step costs what it changes. Ties go to the lowest vertex, or, with ``rng``, to a
    random one.
    """
    adjacent = graph.neighbour_sets()
    fill = [_missing_edges(adjacent, vertex) for vertex in range(graph.num_vertices)]
    entries = len(graph.targets)

    def remove(vertex: int) -> set[int]:
        around = adjacent[vertex]
        changed = set(around)
        for first in around:
            others = adjacent[first]
            others.remove(vertex)
            # Pairs (vertex, w) that were missing around `first` go with the vertex.
            fill[first] -= len(others) - len(others & around)
        nonlocal entries
        for first in sorted(around):
            look(_BYTES_PER_NEIGHBOUR * entries)
            for second in around - adjacent[first]:
                if second <= first:
                    continue
                common = adjacent[first] & adjacent[second]
                for vertex_between in common:
                    fill[vertex_between] -= 1
                changed |= common
                fill[first] += len(adjacent[first]) - len(common)
                fill[second] += len(adjacent[second]) - len(common)
                adjacent[first].add(second)
                adjacent[second].add(first)
                entries += 2
        return changed

    return _greedy(adjacent, fill, remove, rng, frozenset(last))


def min_weight_order(
    graph: UndirectedGraph, num_states: Sequence[int], rng: np.random.Generator | None = None
) -> Order:
    """Eliminate next the vertex whose table, with its neighbours, has the fewest entries."""
    adjacent = graph.neighbour_sets()
    log_states = np.log2(np.asarray(num_states, dtype=float)).tolist()
    weight = [
        log_states[vertex] + sum(log_states[other] for other in row)
        for vertex, row in enumerate(graph)
    ]

    def remove(vertex: int) -> set[int]:
        around = adjacent[vertex]
        look()
        for first in around:
            adjacent[first].remove(vertex)
            weight[first] -= log_states[vertex]
            for second in around - adjacent[first]:
                if second != first:
                    adjacent[first].add(second)
                    weight[first] += log_states[second]
        return around

    return _greedy(adjacent, weight, remove, rng)


def sweep_order(graph: UndirectedGraph) -> Order:
    """Eliminate layer by layer from a far corner: the reverse Cuthill-McKee order, reversed.

    The variables still joined to eliminated ones are then about one layer of the graph.
    """
    if graph.num_vertices == 0:
        return ()
    ones = np.ones(len(graph.targets), dtype=np.int8)
    shape = (graph.num_vertices, graph.num_vertices)
    matrix = scipy.sparse.csr_array(
        (ones, graph.targets.astype(np.int32), graph.offsets.astype(np.int32)), shape
    )
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    return tuple(order[::-1].tolist())


def maximum_cardinality_order(graph: UndirectedGraph, preferred: Iterable[int] = ()) -> Order:
    """Order the vertices by maximum cardinality search, perfect if the graph is chordal.

    The search numbers from the back: each time the vertex with the most numbered neighbours, of
    several such vertices a preferred one. Preferred vertices so come as late as the graph allows.
    """
    num_vertices = graph.num_vertices
    weight = [0] * num_vertices
    is_numbered = [False] * num_vertices
    first = set(preferred)
    everything = range(num_vertices - 1, -1, -1)
    others = [vertex for vertex in everything if vertex not in first]
    wanted = [vertex for vertex in everything if vertex in first]
    buckets: list[tuple[list[int], list[int]]] = [(others, wanted)]  # by weight
    backwards: list[int] = []
    while buckets:
        look()
        if not any(buckets[-1]):
            buckets.pop()
            continue
        vertex = (buckets[-1][1] or buckets[-1][0]).pop()
        if is_numbered[vertex] or weight[vertex] != len(buckets) - 1:
            continue  # an entry from before the weight grew
        is_numbered[vertex] = True
        backwards.append(vertex)
        for other in graph.neighbours(vertex):
            if not is_numbered[other]:
                weight[other] += 1
                while len(buckets) <= weight[other]:
                    buckets.append(([], []))
                buckets[weight[other]][other in first].append(other)
    return tuple(reversed(backwards))


def _missing_edges(adjacent: Sequence[set[int]], vertex: int) -> int:
    look()
    around = adjacent[vertex]
    present = sum(len(adjacent[other] & around) for other in around)
    return (len(around) * (len(around) - 1) - present) // 2


def _greedy(
    adjacent: Sequence[set[int]],
    cost: Sequence[int] | Sequence[float],
    remove: Callable[[int], set[int]],
    rng: np.random.Generator | None,
    last: frozenset[int] = frozenset(),
) -> Order:
    """Remove the cheapest vertex again and again; ``remove`` says whose cost it changed.

    Parameters
    ----------
    last : those that go after all others, whatever they cost.
    """
    num_vertices = len(adjacent)
    tie_break = (np.arange(num_vertices) if rng is None else rng.permutation(num_vertices)).tolist()
    heap = [(v in last, cost[v], tie_break[v], v) for v in range(num_vertices)]
    heapq.heapify(heap)
    is_left = [True] * num_vertices
    order: list[int] = []
    while heap:
        look()
        _, at_cost, _, vertex = heapq.heappop(heap)
        if not is_left[vertex] or at_cost != cost[vertex]:
            continue  # an entry from before the cost changed
        is_left[vertex] = False
        order.append(vertex)
        if len(adjacent[vertex]) == num_vertices - len(order):
            # It is joined to all that are left, so removing it joins them all: any order will do.
            order += sorted(adjacent[vertex], key=lambda v: (v in last, v))
            break
        for other in remove(vertex):
            heapq.heappush(heap, (other in last, cost[other], tie_break[other], other))
    return tuple(order)
