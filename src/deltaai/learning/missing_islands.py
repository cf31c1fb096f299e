"""Islands of a row: missing variables that a path of missing variables joins.

Given the cells that are known, different islands are independent, and no factor touches two of
them. So what is missing may be summed over, or weighted, island by island.
"""

from __future__ import annotations

import numpy as np

from deltaai.graphs import UndirectedGraph


def island_labels(is_missing: np.ndarray, graph: UndirectedGraph) -> np.ndarray:
    """For each missing cell the smallest variable of its island; their number elsewhere.

    >>> path = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    >>> island_labels(np.array([[True, True, False, True]]), path).tolist()
    [[0, 0, 4, 3]]
    """
    num_variables = is_missing.shape[1]
    labels = np.where(is_missing, np.arange(num_variables), num_variables).astype(np.int32)
    neighbours = [np.array(graph.neighbours(v), dtype=np.int64) for v in range(num_variables)]
    is_changing = True
    while is_changing:
        before = labels.copy()
        for variable, around in enumerate(neighbours):
            if len(around):
                smallest = np.minimum(labels[:, variable], labels[:, around].min(1))
                labels[:, variable] = np.where(is_missing[:, variable], smallest, num_variables)
        is_changing = bool((labels != before).any())
    return labels
