"""Undirected graphs on vertices 0..n-1, as sorted neighbour rows.

Two integer arrays hold the whole graph (compressed rows), so a model with a million variables
costs a few dozen megabytes and nothing is ever of size V x V.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from deltaai.errors import GraphError
from deltaai.watch import look

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UndirectedGraph:
    """A simple undirected graph.

    Parameters
    ----------
    offsets : where the row of each vertex begins in ``targets``; one more entry than vertices.
    targets : neighbours of each vertex, ascending within a row; each edge stands in two rows.

    Use :meth:`from_edges` or :meth:`from_scopes` to build one.
    """

    offsets: IntArray
    targets: IntArray

    @classmethod
    def from_edges(
        cls, num_vertices: int, edges: IntArray | Sequence[tuple[int, int]]
    ) -> UndirectedGraph:
        """Build from pairs of vertices; repeated and reversed pairs count once.

        >>> UndirectedGraph.from_edges(3, [(0, 1), (1, 0), (2, 1)]).neighbours(1)
        (0, 2)
        """
        pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= num_vertices):
            raise GraphError(f"an edge leaves the vertices 0 to {num_vertices - 1}")
        if bool((pairs[:, 0] == pairs[:, 1]).any()):
            raise GraphError("a vertex cannot be its own neighbour")
        look()
        both = np.concatenate((pairs, pairs[:, ::-1]))
        keys = np.sort(both[:, 0] * num_vertices + both[:, 1])
        keys = keys[np.diff(keys, prepend=-1) > 0]  # a table of hashes takes ten times as long
        look()
        sources, targets = np.divmod(keys, max(num_vertices, 1))
        counts = np.bincount(sources, minlength=num_vertices)
        return cls(np.concatenate(([0], np.cumsum(counts))), targets)

    @classmethod
    def from_scopes(cls, num_vertices: int, scopes: Sequence[IntArray]) -> UndirectedGraph:
        """Build the Markov graph: an edge between any two variables of one scope.

        ``scopes`` holds arrays of shape ``(factor, arity)``.
        """
        pairs = [
            scope[:, [first, second]]
            for scope in scopes
            for first, second in combinations(range(scope.shape[1]), 2)
        ]
        return cls.from_edges(num_vertices, np.concatenate([*pairs, np.zeros((0, 2), np.int64)]))

    @property
    def num_vertices(self) -> int:
        """Number of vertices."""
        return len(self.offsets) - 1

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.targets) // 2

    def degree(self, vertex: int) -> int:
        """Number of neighbours of a vertex."""
        return int(self.offsets[vertex + 1] - self.offsets[vertex])

    def neighbours(self, vertex: int) -> tuple[int, ...]:
        """Neighbours of a vertex, ascending."""
        return self._rows[vertex]

    def neighbour_sets(self) -> list[set[int]]:
        """Return a fresh list of neighbour sets, for algorithms that change them."""
        return [set(row) for row in self._rows]

    def edges(self) -> IntArray:
        """Return each edge once, as rows (lower, higher), ascending."""
        sources = np.repeat(np.arange(self.num_vertices), np.diff(self.offsets))
        is_upward = sources < self.targets
        return np.stack((sources[is_upward], self.targets[is_upward]), axis=1)

    def has_edge(self, first: int, second: int) -> bool:
        """Whether two vertices are neighbours."""
        row = self.targets[self.offsets[first] : self.offsets[first + 1]]
        at = int(np.searchsorted(row, second))
        return at < len(row) and int(row[at]) == second

    def contains(self, other: UndirectedGraph) -> bool:
        """Whether every edge of another graph on the same vertices is also in this one."""
        if other.num_vertices != self.num_vertices:
            return False
        return bool(np.isin(other._keys(), self._keys(), assume_unique=True).all())

    def induced(self, vertices: Sequence[int]) -> UndirectedGraph:
        """Return the induced subgraph: vertex i of the result is ``vertices[i]``.

        Removing observed variables from a Markov graph is this, on the variables that stay.
        """
        chosen = np.asarray(vertices, dtype=np.int64)
        if len(np.unique(chosen)) != len(chosen):
            raise GraphError("an induced subgraph names each vertex once")
        number = {vertex: position for position, vertex in enumerate(chosen.tolist())}
        edges = [
            (position, number[other])
            for vertex, position in number.items()
            for other in self._rows[vertex]
            if other > vertex and other in number
        ]
        return UndirectedGraph.from_edges(len(chosen), edges)

    def relabelled(self, number: IntArray | Sequence[int]) -> UndirectedGraph:
        """Return the graph in which vertex v is called ``number[v]``."""
        return UndirectedGraph.from_edges(self.num_vertices, np.asarray(number)[self.edges()])

    def components(self) -> tuple[tuple[int, ...], ...]:
        """Connected components, each ascending, ordered by their least vertex."""
        seen = [False] * self.num_vertices
        found: list[tuple[int, ...]] = []
        for root in range(self.num_vertices):
            if seen[root]:
                continue
            seen[root] = True
            stack, members = [root], [root]
            while stack:
                look()
                for target in self._rows[stack.pop()]:
                    if not seen[target]:
                        seen[target] = True
                        stack.append(target)
                        members.append(target)
            found.append(tuple(sorted(members)))
        return tuple(found)

    @cached_property
    def _rows(self) -> tuple[tuple[int, ...], ...]:
        flat, starts = self.targets.tolist(), self.offsets.tolist()
        return tuple(tuple(flat[start:stop]) for start, stop in pairwise(starts))

    def _keys(self) -> IntArray:
        edges = self.edges()
        return edges[:, 0] * self.num_vertices + edges[:, 1]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UndirectedGraph)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.targets, other.targets)
        )

    def __hash__(self) -> int:
        return hash((self.offsets.tobytes(), self.targets.tobytes()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_vertices} vertices, {self.num_edges} edges)"
