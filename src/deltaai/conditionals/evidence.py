"""What a conditional sees of evidence (equation keys ``any-evidence``, ``fixed-evidence``).

Under one order, with some variables observed,

    p(x_v | all before v, evidence) = p(x_v | parents of v, evidence among the descendants of v)

because v is independent of everything else given its parents, and what comes before v tells
nothing beyond the parents. The order of the unobserved variables stays perfect: their conditionals
multiply to p(unobserved | evidence). So v's descendants are the *context* of its conditional, each
known in the columns in which it is observed, and the same mask tells which factors are inside the
known.

Where the observed variables are the same every time they need no place in the graph (the paper's
conditional amortisation): the order is one of the others alone, on the completion of the graph they
induce, and v's context are the observed neighbours of v and of its descendants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deltaai.conditionals.layout import Layout
from deltaai.graphs import Dag, UndirectedGraph
from deltaai.watch import look

Observed = Bool[Tensor, "var batch"]

MOST_CONTEXT = 128  # descendants whose evidence a conditional sees


def evidence_layout(num_states: list[int], dag: Dag, most: int) -> Layout:
    """Lay out conditionals with parents as inputs and descendants as context.

    Parameters
    ----------
    num_states : of each variable.
    dag : the order.
    most : descendants that a variable sees at most, the nearest in the graph; beyond them the
        conditionals are approximate, for importance weights to make up for.
    """
    context = [
        below if len(below) <= most else _nearest(dag.skeleton, vertex, set(below), most)
        for vertex, below in enumerate(dag.descendants)
    ]
    return Layout.build(num_states, dag.parents, context)


def fixed_evidence_layout(
    num_states: list[int], dag: Dag, graph: UndirectedGraph, observed: Sequence[int]
) -> Layout:
    """Lay out conditionals that see the evidence next to what comes after them.

    Parameters
    ----------
    num_states : of each variable.
    dag : an order of the unobserved variables; the observed ones are joined to nothing.
    graph : the model's Markov graph.
    observed : variables that are observed every time.
    """
    is_observed = set(observed)
    beside = [is_observed.intersection(graph.neighbours(v)) for v in range(graph.num_vertices)]
    context = [
        () if vertex in is_observed else sorted(set().union(*(beside[v] for v in (vertex, *below))))
        for vertex, below in enumerate(dag.descendants)
    ]
    return Layout.build(num_states, dag.parents, context)


def without_vertices(graph: UndirectedGraph, removed: Sequence[int]) -> UndirectedGraph:
    """Graph without the edges of some vertices, which stay as isolated ones."""
    edges = graph.edges()
    is_kept = ~np.isin(edges, list(removed)).any(axis=1)
    return UndirectedGraph.from_edges(graph.num_vertices, edges[is_kept])


def known_given(
    layout: Layout, observed: Observed, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "slot batch"]:
    """Which inputs are known: parents always, context where it is observed."""
    padded = torch.cat((observed, torch.zeros_like(observed[:1])))
    known = padded[layout.slot_input].to(dtype)
    for bucket in layout.buckets:
        parents = bucket.inputs[:, : bucket.num_flipped] < layout.num_variables
        slots = known[bucket.slots].view(bucket.size, bucket.num_inputs, observed.shape[1])
        slots[:, : bucket.num_flipped] = parents[:, :, None].to(dtype)
    return known


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
