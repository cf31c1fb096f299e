"""Colour the vertices of a graph so that no two neighbours share a colour.

Variables of one colour of a Markov graph are independent given all the others, so a sampler may
change them at the same time. The greedy rule is DSATUR (Brélaz 1979): colour next the vertex whose
neighbours show the most colours, and give it the least colour that they do not show. It finds two
colours where two are enough (lattices, trees, layered models) and never needs more than the
largest degree plus one. It does not look for the least number of colours, which is hard.
"""

from __future__ import annotations

import heapq

from deltaai.graphs.undirected import UndirectedGraph
from deltaai.watch import look


def greedy_colouring(graph: UndirectedGraph) -> tuple[tuple[int, ...], ...]:
    """Split the vertices into classes without an edge inside.

    Returns
    -------
    tuple
        Classes by colour, each ascending; none is empty.

    Examples
    --------
    >>> greedy_colouring(UndirectedGraph.from_edges(5, [(0, 1), (1, 2), (2, 3), (3, 0)]))
    ((0, 2, 4), (1, 3))
    """
    colour = [-1] * graph.num_vertices
    shown: list[set[int]] = [set() for _ in colour]
    # Most colours shown first, then highest degree, then least number: the same in every run.
    queue = [(0, -graph.degree(vertex), vertex) for vertex in range(graph.num_vertices)]
    heapq.heapify(queue)
    while queue:
        look()
        _, _, vertex = heapq.heappop(queue)
        if colour[vertex] >= 0:
            continue  # an entry from before its neighbours showed more colours
        chosen = next(c for c in range(len(shown[vertex]) + 1) if c not in shown[vertex])
        colour[vertex] = chosen
        for other in graph.neighbours(vertex):
            if colour[other] < 0 and chosen not in shown[other]:
                shown[other].add(chosen)
                heapq.heappush(queue, (-len(shown[other]), -graph.degree(other), other))
    classes: list[list[int]] = [[] for _ in range(max(colour, default=-1) + 1)]
    for vertex, chosen in enumerate(colour):
        classes[chosen].append(vertex)
    return tuple(tuple(members) for members in classes)
