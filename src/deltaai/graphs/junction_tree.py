"""Junction trees: the maximal cliques of a chordal graph, joined into a tree.

They are joined so that the cliques of each variable are connected (running intersection). Such
trees are the maximum-weight spanning trees of the clique graph, whose edges weigh as many
variables as two cliques share; a random one is drawn by breaking ties at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts come when they are needed

from deltaai.errors import GraphError
from deltaai.graphs.chordal import ChordalGraph
from deltaai.graphs.undirected import IntArray
from deltaai.watch import look

# A variable in more cliques than this contributes a random choice of pairs instead of all.
_MOST_CLIQUES_PAIRED = 48


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """A rooted forest over the maximal cliques of a chordal graph, one tree a component.

    Parameters
    ----------
    graph : the chordal graph.
    order : the cliques, each parent before its children.
    parents : parent of each clique, -1 for roots.
    """

    graph: ChordalGraph
    order: tuple[int, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        cliques = self.graph.cliques
        seen: set[int] = set()
        for clique in self.order:
            look()
            if self.parents[clique] >= 0 and self.parents[clique] not in seen:
                raise GraphError("a junction tree lists each clique once, after its parent")
            seen.add(clique)
        if len(seen) != len(cliques) or len(self.order) != len(cliques):
            raise GraphError("a junction tree lists every clique once")
        # In a forest, (cliques with v) - (separators with v) counts the pieces v falls into.
        pieces = np.zeros(self.graph.num_vertices, dtype=np.int64)
        np.add.at(pieces, _flat(cliques), 1)
        np.add.at(pieces, _flat(self.separators), -1)
        if not bool((pieces == 1).all()):
            broken = int(np.flatnonzero(pieces != 1)[0])
            raise GraphError(f"the cliques that hold variable {broken} are not connected")

    @cached_property
    def separators(self) -> tuple[tuple[int, ...], ...]:
        """Variables each clique shares with its parent; empty for roots."""
        cliques = self.graph.cliques
        shared: list[tuple[int, ...]] = []
        for clique, parent in enumerate(self.parents):
            look()
            both = set(cliques[clique]) & set(cliques[parent]) if parent >= 0 else ()
            shared.append(tuple(sorted(both)))
        return tuple(shared)


def junction_tree(graph: ChordalGraph, rng: np.random.Generator | None = None) -> JunctionTree:
    """Return a junction tree: a random one with random roots if ``rng`` is given."""
    num_cliques = len(graph.cliques)
    first, second, weight = _candidates(graph, rng)
    look()
    # Weights are whole numbers, so adding less than one breaks ties and nothing else.
    jitter = np.zeros(len(weight)) if rng is None else rng.random(len(weight)) * 0.5
    cost = graph.num_vertices + 1.0 - weight + jitter
    tree = scipy.sparse.csgraph.minimum_spanning_tree(
        scipy.sparse.coo_array((cost, (first, second)), shape=(num_cliques, num_cliques)).tocsr()
    )
    return _rooted(graph, tree, rng)


def _candidates(
    graph: ChordalGraph, rng: np.random.Generator | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of cliques that share variables, each once, with how many they share.

    The pairs of one known junction tree are always among them, and it has maximum weight, so a
    maximum spanning tree of the candidates is a junction tree even where pairs were left out.
    """
    count = max(len(graph.cliques), 1)
    pairs = [_known_tree(graph)]
    if rng is not None:
        pairs.append(_pairs_that_meet(graph, rng))
    key = np.unique(np.concatenate(pairs))
    first, second = np.divmod(key, count)
    member = scipy.sparse.csr_array(
        (
            np.ones(sum(map(len, graph.cliques)), dtype=np.int64),
            _flat(graph.cliques),
            np.concatenate(([0], np.cumsum([len(clique) for clique in graph.cliques]))),
        ),
        shape=(len(graph.cliques), graph.num_vertices),
    )
    shared = member[first].multiply(member[second]).sum(axis=1) if len(key) else np.zeros(0)
    return first, second, np.asarray(shared, dtype=np.int64).ravel()


def _known_tree(graph: ChordalGraph) -> IntArray:
    """The tree that the elimination order itself gives, as pair keys."""
    count = max(len(graph.cliques), 1)
    keys = []
    for vertex, parent in enumerate(graph.elimination.parents):
        if parent >= 0 and graph.clique_of[vertex] != graph.clique_of[parent]:
            low, high = sorted((graph.clique_of[vertex], graph.clique_of[parent]))
            keys.append(low * count + high)
    return np.array(keys, dtype=np.int64)


def _pairs_that_meet(graph: ChordalGraph, rng: np.random.Generator) -> IntArray:
    count = max(len(graph.cliques), 1)
    keys = [np.zeros(0, dtype=np.int64)]
    for members in _cliques_with(graph):
        look()
        if len(members) > _MOST_CLIQUES_PAIRED:
            some = rng.choice(members, size=(len(members), 2))
            low, high = some.min(axis=1), some.max(axis=1)
            keys.append((low * count + high)[low != high])
        elif len(members) > 1:
            low, high = np.triu_indices(len(members), k=1)
            keys.append(members[low] * count + members[high])
    return np.unique(np.concatenate(keys))


def _cliques_with(graph: ChordalGraph) -> list[IntArray]:
    """For each variable, the cliques that hold it, ascending."""
    owner = np.repeat(np.arange(len(graph.cliques)), [len(clique) for clique in graph.cliques])
    variable = _flat(graph.cliques)
    by_variable = np.argsort(variable, kind="stable")
    counts = np.bincount(variable, minlength=graph.num_vertices)
    return list(np.split(owner[by_variable], np.cumsum(counts)[:-1]))


def _rooted(
    graph: ChordalGraph,
    tree: scipy.sparse.csr_matrix | scipy.sparse.csr_array,
    rng: np.random.Generator | None,
) -> JunctionTree:
    num_cliques = len(graph.cliques)
    _, component = scipy.sparse.csgraph.connected_components(tree, directed=False)
    priority = np.arange(num_cliques) if rng is None else rng.permutation(num_cliques)
    roots: dict[int, int] = {}
    for clique in priority.tolist():
        roots.setdefault(int(component[clique]), clique)
    order: list[int] = []
    parents = np.full(num_cliques, -1)
    for root in roots.values():
        look()
        visited, predecessors = scipy.sparse.csgraph.breadth_first_order(tree, root, directed=False)
        order += visited.tolist()
        parents[visited[1:]] = predecessors[visited[1:]]
    return JunctionTree(graph, tuple(order), tuple(parents.tolist()))


def _flat(rows: tuple[tuple[int, ...], ...]) -> IntArray:
    return np.fromiter((v for row in rows for v in row), np.int64, sum(map(len, rows)))
