"""Immorality-free DAGs: the Bayesian-network structures that fit a chordal graph (its P-maps).

Any vertex order orients a graph from earlier to later. The result has no immorality exactly when
the earlier neighbours of every vertex are joined, that is, when the order read backwards is a
perfect elimination order. So a :class:`Dag` is a chordal graph with such an order, and checking
the order certifies everything: acyclic, no immoralities, and the graph as its skeleton.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from deltaai.errors import GraphError
from deltaai.graphs.chordal import ChordalGraph, is_perfect_order, later_neighbours
from deltaai.graphs.junction_tree import junction_tree
from deltaai.graphs.orders import Order
from deltaai.graphs.undirected import IntArray, UndirectedGraph
from deltaai.watch import look


@dataclass(frozen=True, eq=False)
class Dag:
    """An acyclic, immorality-free orientation of a chordal graph, checked on construction.

    Parameters
    ----------
    skeleton : the undirected graph.
    order : a topological order: every edge points from earlier to later.

    >>> path = UndirectedGraph.from_edges(3, [(0, 1), (1, 2)])
    >>> Dag(path, (1, 0, 2)).parents
    ((1,), (), (1,))
    >>> Dag(path, (0, 2, 1))
    Traceback (most recent call last):
    deltaai.errors.GraphError: the order leaves two parents of a variable unjoined (an immorality)
    """

    skeleton: UndirectedGraph
    order: Order

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(self.skeleton.num_vertices)):
            raise GraphError("a topological order names each variable once")
        if not is_perfect_order(self.skeleton, self.order[::-1]):
            raise GraphError("the order leaves two parents of a variable unjoined (an immorality)")

    @property
    def num_vertices(self) -> int:
        """Number of variables."""
        return self.skeleton.num_vertices

    @cached_property
    def arcs(self) -> tuple[IntArray, IntArray]:
        """All arcs as (parents, children), sorted by child, then by parent."""
        rank = np.empty(self.num_vertices, dtype=np.int64)
        rank[list(self.order)] = np.arange(self.num_vertices)
        parent, child = later_neighbours(self.skeleton, rank)
        by_child = np.lexsort((parent, child))
        return parent[by_child], child[by_child]

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Parents of each variable, ascending."""
        parent, child = self.arcs
        return _rows(child, parent, self.num_vertices)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each variable, ascending."""
        parent, child = self.arcs
        by_parent = np.argsort(parent, kind="stable")
        return _rows(parent[by_parent], child[by_parent], self.num_vertices)

    @cached_property
    def descendants(self) -> tuple[tuple[int, ...], ...]:
        """All variables that a directed path leads to from each variable, ascending.

        Quadratic in the number of variables in the worst case; for models of up to thousands.
        """
        below = [0] * self.num_vertices  # sets as the bits of a whole number
        num_entries = 0
        for vertex in reversed(self.order):
            for child in self.children[vertex]:
                below[vertex] |= below[child] | 1 << child
            num_entries += below[vertex].bit_count()
            look(8 * num_entries)
        return tuple(map(_places, below))

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Variables in layers: each has all its parents in earlier layers, one in the last."""
        depth = [0] * self.num_vertices
        for vertex in self.order:
            look()
            above = self.parents[vertex]
            depth[vertex] = 1 + max((depth[parent] for parent in above), default=-1)
        layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for vertex, layer in enumerate(depth):
            layers[layer].append(vertex)
        return tuple(tuple(layer) for layer in layers)


def _rows(keys: IntArray, values: IntArray, num_rows: int) -> tuple[tuple[int, ...], ...]:
    starts = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=num_rows)))).tolist()
    flat = values.tolist()
    return tuple(tuple(flat[start:stop]) for start, stop in pairwise(starts))


def _places(bits: int) -> tuple[int, ...]:
    """Where the ones of a whole number stand, the lowest first."""
    look()
    return tuple(place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")


def random_dag(graph: ChordalGraph, rng: np.random.Generator) -> Dag:
    """Draw an immorality-free orientation.

    Steps (appendix "Sampling a P-map for a chordal factor graph"): a random junction tree with
    random roots; cliques from the root outwards; inside each, the variables not yet seen in
    random order; edges point to newly seen variables.
    """
    tree = junction_tree(graph, rng)
    chance = rng.random(graph.num_vertices).tolist()
    is_seen = [False] * graph.num_vertices
    order: list[int] = []
    for clique in tree.order:
        look()
        fresh = [vertex for vertex in graph.cliques[clique] if not is_seen[vertex]]
        fresh.sort(key=chance.__getitem__)
        for vertex in fresh:
            is_seen[vertex] = True
        order += fresh
    return Dag(graph, tuple(order))


def moral_graph(parents: Sequence[Sequence[int]]) -> UndirectedGraph:
    """Join every variable of a Bayesian network to its parents and these to each other."""
    edges = [
        (first, second)
        for child, row in enumerate(parents)
        for position, first in enumerate((child, *row))
        for second in (child, *row)[position + 1 :]
    ]
    return UndirectedGraph.from_edges(len(parents), edges)
