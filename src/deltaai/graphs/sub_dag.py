"""Orientations of a variable's closed neighbourhood, for partial inference.

The closed neighbourhood of u in a chordal graph is chordal, and any orientation of it without
immoralities is the top of one of the whole graph: its conditionals are conditionals of the whole
model, and nothing outside is needed to train them. Drawing one costs what the neighbourhood costs,
whatever the size of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaai.graphs.chordal import ChordalGraph
from deltaai.graphs.dag import Dag
from deltaai.graphs.orders import Order


@dataclass(frozen=True, eq=False)
class SubDag:
    """A DAG on some of the variables: vertex i of ``dag`` is the variable ``vertices[i]``."""

    vertices: tuple[int, ...]
    dag: Dag


def random_sub_order(graph: ChordalGraph, vertex: int, rng: np.random.Generator) -> Order:
    """Draw a topological order of a random orientation of a closed neighbourhood.

    The same steps as for a whole graph (``random_dag``): a random maximum-weight spanning tree of
    the cliques, grown here from a random root, and inside each clique a random order of what is
    new.
    """
    rank = graph.rank
    inside = set(graph.closed_neighbourhood(vertex))
    cliques: list[set[int]] = []
    for first in sorted(inside, key=rank.__getitem__):
        later = {v for v in graph.neighbours(first) if v in inside and rank[v] > rank[first]}
        later.add(first)
        if not any(later <= clique for clique in cliques):
            cliques.append(later)
    chance = dict(zip(sorted(inside), rng.random(len(inside)).tolist(), strict=True))
    left = list(range(len(cliques)))
    weight = [-1.0] * len(cliques)
    chosen = left.pop(int(rng.integers(len(left))))
    order: list[int] = []
    while True:
        order += sorted(cliques[chosen].difference(order), key=chance.__getitem__)
        if not left:
            return tuple(order)
        # Weights are whole numbers, so less than one breaks ties and nothing else.
        for other, jitter in zip(left, rng.random(len(left)).tolist(), strict=True):
            shared = len(cliques[other] & cliques[chosen])
            weight[other] = max(weight[other], shared + 0.5 * jitter)
        chosen = max(left, key=weight.__getitem__)
        left.remove(chosen)


def random_sub_dag(graph: ChordalGraph, vertex: int, rng: np.random.Generator) -> SubDag:
    """Draw a certified orientation of a variable's closed neighbourhood."""
    vertices = graph.closed_neighbourhood(vertex)
    place = {variable: position for position, variable in enumerate(vertices)}
    order = tuple(place[variable] for variable in random_sub_order(graph, vertex, rng))
    return SubDag(vertices, Dag(graph.induced(vertices), order))
