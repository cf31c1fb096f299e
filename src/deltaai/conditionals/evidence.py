"""What a conditional sees of evidence (equation keys ``any-evidence``, ``fixed-evidence``).

With some variables observed, in any order,

    p(x_v | all before v, evidence) = p(x_v | parents of v, evidence among the descendants of v)

because v is independent of everything else given its parents, and what comes before v tells
nothing beyond the parents. The order of the unobserved variables stays perfect: their conditionals
multiply to p(unobserved | evidence). So what may come after v is the *context* of its conditional,
each variable known in the columns in which it is observed, and the same mask tells which factors
are inside the known. Under one order that is v's descendants; under many it may be any variable.

Where the observed variables are the same every time they need no place in the graph (the paper's
conditional amortisation): the order is one of the others alone, on the completion of the graph they
induce, and v's context are the observed neighbours of v and of what may come after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import torch

from deltaai.conditionals.heads import Head
from deltaai.conditionals.layout import Layout
from deltaai.graphs import ChordalGraph, Dag, UndirectedGraph
from deltaai.watch import look

MOST_CONTEXT = 128  # variables after it whose evidence a conditional sees


def evidence_layout(
    variables: Sequence[int | Head],
    orders: Dag | ChordalGraph,
    most: int,
    device: torch.device | str = "cpu",
) -> Layout:
    """Lay out conditionals with what may come after a variable as its context.

    Parameters
    ----------
    variables : numbers of states, or heads.
    orders : the one order, or the graph that all orders orient.
    most : variables that one sees as context at most, the nearest in the graph; beyond them the
        conditionals are approximate, for importance weights to make up for.
    """
    graph, after = _graph_and_after(orders)
    context = [
        tuple(below) if len(below) <= most else _nearest(graph, vertex, set(below), most)
        for vertex, below in enumerate(after)
    ]
    return Layout.build(variables, inputs_of(orders), context, device)


def fixed_evidence_layout(
    variables: Sequence[int | Head],
    orders: Dag | ChordalGraph,
    graph: UndirectedGraph,
    observed: Sequence[int],
    device: torch.device | str = "cpu",
) -> Layout:
    """Lay out conditionals that see the evidence next to what may come after them.

    Parameters
    ----------
    variables : numbers of states, or heads.
    orders : an order of the unobserved variables, or the graph that all their orders orient; the
        observed ones are joined to nothing there.
    graph : the model's Markov graph.
    observed : variables that are observed every time.
    """
    is_observed = set(observed)
    beside = [is_observed.intersection(graph.neighbours(v)) for v in range(graph.num_vertices)]
    inside, after = _graph_and_after(orders)
    context = []
    for vertex, below in enumerate(after):
        near = (vertex, *below)
        if isinstance(orders, ChordalGraph):
            near = (*near, *inside.neighbours(vertex))
        seen = set[int]().union(*(beside[v] for v in near))
        context.append(() if vertex in is_observed else tuple(sorted(seen)))
    return Layout.build(variables, inputs_of(orders), context, device)


def inputs_of(orders: Dag | ChordalGraph) -> Sequence[tuple[int, ...]]:
    """What each conditional may be given: parents in one order, neighbours where there are many."""
    if isinstance(orders, Dag):
        return orders.parents
    return [orders.neighbours(vertex) for vertex in range(orders.num_vertices)]


def without_vertices(graph: UndirectedGraph, removed: Sequence[int]) -> UndirectedGraph:
    """Graph without the edges of some vertices, which stay as isolated ones."""
    edges = graph.edges()
    is_kept = ~np.isin(edges, list(removed)).any(axis=1)
    return UndirectedGraph.from_edges(graph.num_vertices, edges[is_kept])


def _graph_and_after(
    orders: Dag | ChordalGraph,
) -> tuple[UndirectedGraph, Sequence[tuple[int, ...]]]:
    """The graph, and which variables other than its inputs may come after each."""
    if isinstance(orders, Dag):
        return orders.skeleton, orders.descendants
    after: list[tuple[int, ...]] = [()] * orders.num_vertices
    num_entries = 0
    for part in orders.components():
        inside = set(part)
        for vertex in part:
            num_entries += len(part)
            look(8 * num_entries)
            others = inside.difference(orders.neighbours(vertex), (vertex,))
            after[vertex] = tuple(sorted(others))
    return orders, after


def _nearest(graph: UndirectedGraph, start: int, wanted: set[int], most: int) -> tuple[int, ...]:
    """Vertices of a set in the order of a breadth-first search, so many at most; ascending."""
    look()
    found: list[int] = []
    seen, queue = {start}, deque([start])
    while queue and len(found) < most:
        for neighbour in graph.neighbours(queue.popleft()):
            if neighbour in seen:
                continue
            seen.add(neighbour)
            queue.append(neighbour)
            if neighbour in wanted and len(found) < most:
                found.append(neighbour)
    return tuple(sorted(found))
