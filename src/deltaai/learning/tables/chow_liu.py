"""The tree that explains the data best, by Chow and Liu: a spanning tree of mutual information.

    I(a, b) = Σ p(a, b) log p(a, b) / (p(a) p(b))

over the rows in which both are known. Of all trees the one with the largest sum has the largest
likelihood. Counting all pairs is a product of matrices.

References
----------
C. Chow and C. Liu, Approximating discrete probability distributions with dependence trees, IEEE
Transactions on Information Theory 14 (1968).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deltaai.errors import NotAffordableError

_ROWS_AT_ONCE = 2**14
_LEAST_INFORMATION = 1e-9  # nats; a parent that tells less is none
_MOST_PAIRS = 2**13  # (variable, state) pairs; their square is kept


def pair_counts(rows: np.ndarray, num_states: Sequence[int]) -> np.ndarray:
    """How often each two (variable, state) pairs are seen together."""
    offsets = np.concatenate(([0], np.cumsum(num_states)))
    total = int(offsets[-1])
    if total > _MOST_PAIRS:
        raise NotAffordableError(
            f"a tree of columns with {total} states in all needs too much memory: give a structure"
        )
    counts = np.zeros((total, total))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[first : first + _ROWS_AT_ONCE]
        row, column = np.nonzero(block >= 0)
        seen = np.zeros((len(block), total), dtype=np.float32)
        seen[row, offsets[column] + block[row, column]] = 1
        counts += seen.T @ seen  # whole numbers, exact in float32 below 2^24
    return counts


def mutual_information(counts: np.ndarray, num_states: Sequence[int]) -> np.ndarray:
    """Of each two variables, in nats; zero on the diagonal."""
    offsets = np.concatenate(([0], np.cumsum(num_states)))
    starts = offsets[:-1]

    def summed(table: np.ndarray, axis: int) -> np.ndarray:
        found: np.ndarray = np.add.reduceat(table, starts, axis=axis)
        return found

    of_first = np.repeat(summed(counts, 1), num_states, axis=1)  # of a's state, where b is known
    of_second = np.repeat(summed(counts, 0), num_states, axis=0)
    both = np.repeat(np.repeat(summed(summed(counts, 0), 1), num_states, 0), num_states, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = counts / both * np.log(counts * both / (of_first * of_second))
    found = summed(summed(np.where(counts > 0, terms, 0.0), 0), 1)
    np.fill_diagonal(found, 0.0)
    positive: np.ndarray = np.maximum(found, 0.0)
    return positive


def chow_liu_parents(rows: np.ndarray, num_states: Sequence[int]) -> list[tuple[int, ...]]:
    """Parents in a tree of largest mutual information, away from the first variable.

    >>> rows = [[0, 0, 0]] * 3 + [[1, 1, 1]] * 4 + [[1, 0, 0], [0, 0, 0], [1, 1, 0]]
    >>> rows = np.array(rows)
    >>> chow_liu_parents(rows, [2, 2, 2])
    [(), (0,), (1,)]
    """
    # Heavy, and needed here alone.
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import (  # noqa: PLC0415
        breadth_first_order,
        minimum_spanning_tree,
    )

    information = mutual_information(pair_counts(rows, num_states), num_states)
    # Scipy looks for the smallest sum, and takes zeros for no edge.
    cost = information.max(initial=0.0) + 1 - information
    np.fill_diagonal(cost, 0.0)
    tree = minimum_spanning_tree(csr_array(np.triu(cost)))
    _, before = breadth_first_order(tree, 0, directed=False)
    is_told = information > _LEAST_INFORMATION
    return [
        (int(parent),) if parent >= 0 and is_told[parent, child] else ()
        for child, parent in enumerate(before)
    ]
