"""In which order a sparse precision matrix is factorised, and what that takes, before it is done.

Eliminating a variable of a Gaussian field joins its neighbours, as in a table model; only what is
held is smaller: an entry for each variable and each member of its front, not one for each joint
state. With f_v the size of the front of v,

    entries of the factor = Σ_v (1 + f_v),    multiplications = Σ_v (1 + f_v)²

The order is SuperLU's own, minimum degree on A + Aᵀ, which takes milliseconds where greedy rules in
Python take seconds. It comes with every factorisation, so an incomplete one that drops all it may
is made of a matrix with the same pattern. Nothing numeric is known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed

from deltaai.exact.memory import most_waiting
from deltaai.graphs import Elimination, UndirectedGraph, eliminate

# Bytes for an entry of the factor (both triangles in SuperLU, both again as matrices, the fronts),
# for a variable or an edge of the precision matrix in all copies, and for one of a dense block.
_BYTES_PER_ENTRY, _BYTES_PER_NONZERO, _BYTES_PER_BLOCK_ENTRY = 80, 200, 8
_WORKING_BLOCKS = 4  # of the largest size, alive at once on the way down
# Symmetric mode: pivots are taken from the diagonal, whatever stands beside them.
SYMMETRIC: dict[str, Any] = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}


@dataclass(frozen=True)
class GaussianCost:
    """What the factor of a Gaussian field takes.

    Parameters
    ----------
    width : size of the largest front.
    largest_block : entries of the largest dense block, (1 + width)².
    factor_entries : entries of the factor.
    operations : multiplications for it, roughly; time is proportional to it.
    peak_bytes : memory at the worst moment of finding log Z, means and variances.
    """

    width: int
    largest_block: int
    factor_entries: int
    operations: int
    peak_bytes: int


def fill_order(graph: UndirectedGraph) -> tuple[int, ...]:
    """An order of minimum degree.

    >>> star = UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])
    >>> fill_order(star)[-1] in (0, 3)  # the hub is not among the first
    True
    """
    count = graph.num_vertices
    if count == 0:
        return ()
    degrees = np.diff(graph.offsets)
    edges = scipy.sparse.csr_array(
        (np.full(len(graph.targets), -1.0), graph.targets, graph.offsets), (count, count)
    )
    dominant = (edges + scipy.sparse.diags_array(2.0 + degrees)).tocsc()
    rough = scipy.sparse.linalg.spilu(
        dominant, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", **SYMMETRIC
    )
    return tuple(np.argsort(rough.perm_c).tolist())


def gaussian_elimination(graph: UndirectedGraph) -> Elimination:
    """Eliminate in the order of :func:`fill_order`: a chordal graph's fronts come with no fill."""
    return eliminate(graph, fill_order(graph))


def gaussian_cost(elimination: Elimination) -> GaussianCost:
    """Predict what a factor takes from the sizes of its fronts.

    >>> path = UndirectedGraph.from_edges(3, [(0, 1), (1, 2)])
    >>> gaussian_cost(eliminate(path, (0, 1, 2))).factor_entries
    5
    """
    sizes = [len(front) for front in elimination.fronts]
    children: list[list[int]] = [[] for _ in sizes]
    for vertex in elimination.order:
        if elimination.parents[vertex] >= 0:
            children[elimination.parents[vertex]].append(vertex)
    waiting = most_waiting(elimination.parents, children, [size**2 for size in sizes])
    largest = (1 + elimination.width) ** 2
    entries = sum(sizes) + len(sizes)
    num_bytes = (
        _BYTES_PER_ENTRY * entries
        + _BYTES_PER_NONZERO * len(sizes)
        + _BYTES_PER_BLOCK_ENTRY * (waiting + _WORKING_BLOCKS * largest)
    )
    operations = sum((1 + size) ** 2 for size in sizes)
    return GaussianCost(elimination.width, largest, entries, operations, num_bytes)
