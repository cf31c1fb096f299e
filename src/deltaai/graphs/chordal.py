"""Chordal graphs, certified by a perfect elimination order.

A graph is chordal when it has an order in which every vertex's later neighbours form a clique
(a *perfect* order). A :class:`ChordalGraph` carries one and has checked it, so nobody re-checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deltaai.errors import GraphError
from deltaai.graphs.elimination import Elimination, best_elimination, eliminate
from deltaai.graphs.orders import Order, maximum_cardinality_order
from deltaai.graphs.undirected import IntArray, UndirectedGraph
from deltaai.watch import look


@dataclass(frozen=True, eq=False, repr=False)
class ChordalGraph(UndirectedGraph):
    """An undirected graph with a perfect elimination order, checked on construction.

    Parameters
    ----------
    order : the perfect order, first eliminated first.
    """

    order: Order

    def __post_init__(self) -> None:
        if not is_perfect_order(self, self.order):
            raise GraphError(
                "the order is not a perfect elimination order of the graph: the later neighbours "
                "of some vertex are not all joined; complete the graph with chordal_completion()"
            )

    @classmethod
    def from_graph(cls, graph: UndirectedGraph) -> ChordalGraph:
        """Certify a graph that is chordal already; any other is refused."""
        return cls(graph.offsets, graph.targets, maximum_cardinality_order(graph))

    @classmethod
    def from_elimination(cls, elimination: Elimination) -> ChordalGraph:
        """Join every vertex to its front."""
        graph = UndirectedGraph.from_edges(len(elimination.order), elimination.edges())
        return cls(graph.offsets, graph.targets, elimination.order)

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """Place of each vertex in the perfect order."""
        places = [0] * self.num_vertices
        for place, vertex in enumerate(self.order):
            places[vertex] = place
        return tuple(places)

    @cached_property
    def elimination(self) -> Elimination:
        """The perfect order with its fronts, which are the later neighbours."""
        return eliminate(self, self.order)

    @property
    def width(self) -> int:
        """Size of the largest clique, less one: the treewidth of this graph."""
        return self.elimination.width

    @cached_property
    def clique_of(self) -> tuple[int, ...]:
        """For each vertex, the maximal clique that holds it and its later neighbours."""
        fronts, parents = self.elimination.fronts, self.elimination.parents
        heir_of = [-1] * self.num_vertices  # a clique that also holds the vertex and its front
        number = [-1] * self.num_vertices
        count = 0
        for vertex in self.order:
            look()
            if heir_of[vertex] >= 0:
                number[vertex] = heir_of[vertex]
            else:
                number[vertex], count = count, count + 1
            parent = parents[vertex]
            if parent >= 0 and len(fronts[vertex]) == len(fronts[parent]) + 1:
                heir_of[parent] = number[vertex]
        return tuple(number)

    @cached_property
    def cliques(self) -> tuple[tuple[int, ...], ...]:
        """The maximal cliques, each ascending."""
        found: dict[int, tuple[int, ...]] = {}
        for vertex in self.order:
            look()
            if self.clique_of[vertex] not in found:  # its first vertex to go sees all the others
                members = (vertex, *self.elimination.fronts[vertex])
                found[self.clique_of[vertex]] = tuple(sorted(members))
        return tuple(found[number] for number in range(len(found)))

    def induced(self, vertices: Sequence[int]) -> ChordalGraph:
        """Return the induced subgraph, which is chordal with the same order."""
        graph = super().induced(vertices)
        number = {vertex: position for position, vertex in enumerate(vertices)}
        order = tuple(number[vertex] for vertex in sorted(vertices, key=self.rank.__getitem__))
        return ChordalGraph(graph.offsets, graph.targets, order)

    def closed_neighbourhood(self, vertex: int) -> tuple[int, ...]:
        """Return a vertex and its neighbours, ascending: its Markov blanket and itself."""
        return tuple(sorted((vertex, *self.neighbours(vertex))))


def is_perfect_order(graph: UndirectedGraph, order: Sequence[int]) -> bool:
    """Whether the later neighbours of every vertex are joined to each other.

    It suffices that v's later neighbours are joined to the first of them: the rest follows by
    induction from the end of the order.

    >>> square = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> is_perfect_order(square, (0, 1, 2, 3))
    False
    """
    num_vertices = graph.num_vertices
    ordered = np.asarray(order, dtype=np.int64)
    if len(ordered) != num_vertices or not np.array_equal(
        np.sort(ordered), np.arange(num_vertices)
    ):
        return False
    look()
    rank = np.empty(num_vertices, dtype=np.int64)
    rank[ordered] = np.arange(num_vertices)
    sources, later = later_neighbours(graph, rank)
    if not len(sources):
        return True
    first = np.full(num_vertices, num_vertices, dtype=np.int64)
    np.minimum.at(first, sources, rank[later])
    first_of = ordered[first[sources]]
    look()
    is_other = later != first_of
    wanted = first_of[is_other] * num_vertices + later[is_other]
    keys = sources * num_vertices + later  # each edge once, from earlier to later
    return bool(np.isin(wanted, keys).all())


def later_neighbours(graph: UndirectedGraph, rank: IntArray) -> tuple[IntArray, IntArray]:
    """Return each edge once as (earlier vertex, later vertex) by rank."""
    sources = np.repeat(np.arange(graph.num_vertices), np.diff(graph.offsets))
    is_later = rank[sources] < rank[graph.targets]
    return sources[is_later], graph.targets[is_later]


def chordal_completion(
    graph: UndirectedGraph,
    num_states: Sequence[int] | None = None,
    *,
    order: Sequence[int] | None = None,
    seed: int = 0,
) -> ChordalGraph:
    """Add edges until the graph is chordal.

    Parameters
    ----------
    graph : the graph to complete.
    num_states : number of states of each variable, to weigh cliques with (default: all binary).
    order : elimination order to use; by default the best of several (see ``best_elimination``).
    """
    if order is None:
        sizes = [2] * graph.num_vertices if num_states is None else num_states
        return ChordalGraph.from_elimination(best_elimination(graph, sizes, seed=seed))
    return ChordalGraph.from_elimination(eliminate(graph, order))
