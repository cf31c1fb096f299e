"""Graphs by example: errors, known widths, the variety of random orientations."""

import numpy as np
import pytest

from deltaai.errors import GraphError
from deltaai.graphs import (
    ChordalGraph,
    Dag,
    JunctionTree,
    UndirectedGraph,
    best_elimination,
    chordal_completion,
    eliminate,
    junction_tree,
    min_fill_order,
    random_dag,
    sweep_order,
)
from deltaai.models import zoo


def grid(side):
    return zoo.ising_lattice(side=side, sigma=1.0, seed=0).markov_graph()


@pytest.mark.parametrize(
    ("edges", "message"),
    [([(0, 3)], "leaves the vertices 0 to 2"), ([(1, 1)], "its own neighbour")],
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(GraphError, match=message):
        UndirectedGraph.from_edges(3, edges)


@pytest.mark.parametrize(
    ("order", "message"),
    [((0, 1), "2 of the graph's 3"), ((0, 1, 1), "once"), ((0, 1, 7), "once")],
)
def test_bad_orders_are_refused(order, message):
    with pytest.raises(GraphError, match=message):
        eliminate(UndirectedGraph.from_edges(3, [(0, 1)]), order)


def test_bad_dags_and_trees_are_refused():
    path = UndirectedGraph.from_edges(3, [(0, 1), (1, 2)])
    with pytest.raises(GraphError, match="each variable once"):
        Dag(path, (0, 1))
    chordal = ChordalGraph.from_graph(path)
    with pytest.raises(GraphError, match="every clique once"):
        JunctionTree(chordal, (0,), (-1, 0))
    with pytest.raises(GraphError, match="after its parent"):
        JunctionTree(chordal, (1, 0), (-1, 0))
    with pytest.raises(GraphError, match="variable 1 are not connected"):
        JunctionTree(chordal, (0, 1), (-1, -1))
    with pytest.raises(GraphError, match="each vertex once"):
        path.induced([0, 0])


def test_repeated_vertices_of_scopes_join_everything_in_a_scope():
    graph = UndirectedGraph.from_scopes(5, [np.array([[0, 1, 2]]), np.array([[2, 3]])])
    assert graph.edges().tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert graph.components() == ((0, 1, 2, 3), (4,))


def test_known_widths():
    assert chordal_completion(UndirectedGraph.from_edges(4, [])).width == 0
    tree = UndirectedGraph.from_edges(7, [((v - 1) // 2, v) for v in range(1, 7)])
    assert chordal_completion(tree).width == 1
    cycle = UndirectedGraph.from_edges(9, [(v, (v + 1) % 9) for v in range(9)])
    assert chordal_completion(cycle).width == 2
    complete = UndirectedGraph.from_edges(6, [(a, b) for a in range(6) for b in range(a)])
    assert chordal_completion(complete).width == 5
    ladder = zoo.ising_ladder(num_variables=30, sigma=1.0, seed=0).markov_graph()
    assert ChordalGraph.from_graph(ladder).width == 2
    for side in (3, 5, 8):
        sweep = eliminate(grid(side), sweep_order(grid(side)))
        best = best_elimination(grid(side), [2] * side**2)
        assert sweep.width == side
        entries = [np.exp2(e.log2_table_sizes([2] * side**2)).sum() for e in (best, sweep)]
        assert entries[0] <= entries[1]


def test_min_fill_prefers_states_only_when_asked():
    """A star with a many-state hub: the sweep, fill and weight rules all leave the hub for last."""
    star = UndirectedGraph.from_edges(5, [(0, leaf) for leaf in range(1, 5)])
    assert best_elimination(star, [50, 2, 2, 2, 2]).width == 1


def test_pyramid_completion_has_the_papers_counts():
    """7990 latent-latent edges after completion, largest latent clique 76 (appendix on MNIST)."""
    pyramid = zoo.pyramid()
    latent = pyramid.graph.induced(pyramid.latents)
    completed = ChordalGraph.from_elimination(eliminate(latent, min_fill_order(latent)))
    assert latent.num_edges == 7414
    assert completed.num_edges == 7990
    assert max(map(len, completed.cliques)) == 76


def test_random_dags_reach_every_orientation_of_a_small_graph():
    """Two triangles sharing an edge: all immorality-free orientations occur."""
    graph = ChordalGraph.from_graph(
        UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    )
    rng = np.random.default_rng(0)
    found = {random_dag(graph, rng).parents for _ in range(2000)}
    from itertools import permutations

    expected = set()
    for order in permutations(range(4)):
        try:
            expected.add(Dag(graph, order).parents)
        except GraphError:
            continue
    assert found == expected


def test_random_trees_differ_and_hubs_stay_cheap():
    star = ChordalGraph.from_graph(UndirectedGraph.from_edges(400, [(0, v) for v in range(1, 400)]))
    rng = np.random.default_rng(0)
    trees = {junction_tree(star, rng).parents for _ in range(5)}
    assert len(trees) == 5


def test_a_hundred_thousand_variables():
    ladder = zoo.ising_ladder(num_variables=100_000, sigma=0.2, seed=0).markov_graph()
    chordal = ChordalGraph.from_graph(ladder)
    assert chordal.width == 2
    assert len(chordal.cliques) == 99_998
