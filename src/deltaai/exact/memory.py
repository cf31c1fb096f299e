"""How much memory exact inference would take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deltaai.graphs import Elimination
from deltaai.watch import look

BYTES_PER_ENTRY = 8  # everything exact is float64
# Scratch tables of the largest clique's size, and one more for what torch needs inside.
WORKING_TABLES = 3


@dataclass(frozen=True)
class ExactCost:
    """What an elimination costs before anything is allocated.

    Parameters
    ----------
    width : size of the largest front.
    largest_table : entries of the largest clique table.
    total_entries : entries of all clique tables together; time is proportional to it.
    peak_bytes : memory at the worst moment of computing log Z and all marginals.
    """

    width: int
    largest_table: int
    total_entries: int
    peak_bytes: int


def exact_cost(elimination: Elimination, num_states: Sequence[int]) -> ExactCost:
    """Predict the cost of an elimination from the sizes of its fronts alone.

    All messages (tables over fronts) are kept. The downward pass holds, beside them, the marginals
    of the fronts whose vertex still waits, and both need a few tables of the largest clique.
    """
    fronts = [_product(front, num_states) for front in elimination.fronts]
    cliques = [size * num_states[v] for v, size in enumerate(fronts)]
    children: list[list[int]] = [[] for _ in elimination.order]
    for vertex in elimination.order:
        if elimination.parents[vertex] >= 0:
            children[elimination.parents[vertex]].append(vertex)
    waiting = most_waiting(elimination.parents, children, fronts)
    largest = max(cliques, default=1)
    entries = sum(fronts) + waiting + WORKING_TABLES * largest
    return ExactCost(elimination.width, largest, sum(cliques), BYTES_PER_ENTRY * entries)


def most_waiting(
    parents: Sequence[int], children: Sequence[Sequence[int]], front_sizes: Sequence[int]
) -> int:
    """Most entries of front marginals alive at once when going down depth first.

    The children of a vertex take the place of the vertex itself.
    """
    stack = [v for v, parent in enumerate(parents) if parent < 0]
    alive = most = sum(front_sizes[v] for v in stack)
    while stack:
        vertex = stack.pop()
        stack += children[vertex]
        alive += sum(front_sizes[child] for child in children[vertex]) - front_sizes[vertex]
        most = max(most, alive)
    return most


def _product(variables: Sequence[int], num_states: Sequence[int]) -> int:
    look()
    return math.prod(num_states[v] for v in variables)
