"""Random graphs, among them empty, complete and disconnected ones: what must always hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaai.errors import GraphError
from deltaai.graphs import (
    ChordalGraph,
    Dag,
    UndirectedGraph,
    best_elimination,
    chordal_completion,
    eliminate,
    is_perfect_order,
    junction_tree,
    maximum_cardinality_order,
    min_fill_order,
    min_weight_order,
    moral_graph,
    random_dag,
    random_sub_dag,
    sweep_order,
)

seeds = st.integers(0, 2**32 - 1)


@st.composite
def graphs(draw):
    """Graphs of 0 to 14 vertices and any density, so empty and complete ones come up."""
    num_vertices = draw(st.integers(0, 14))
    density = draw(st.sampled_from([0.0, 0.1, 0.2, 0.4, 0.7, 1.0]))
    rng = np.random.default_rng(draw(seeds))
    chosen = np.triu(rng.random((num_vertices, num_vertices)) < density, k=1)
    return UndirectedGraph.from_edges(num_vertices, np.argwhere(chosen))


def adjacency(graph):
    matrix = np.zeros((graph.num_vertices, graph.num_vertices), dtype=bool)
    for vertex, row in enumerate(graph):
        matrix[vertex, list(row)] = True
    return matrix


def is_clique(matrix, vertices):
    return all(matrix[a, b] for a in vertices for b in vertices if a != b)


def brute_force_is_chordal(matrix):
    """Remove simplicial vertices until none is left: works exactly on chordal graphs."""
    left = list(range(len(matrix)))
    while left:
        for vertex in left:
            around = [other for other in left if matrix[vertex, other]]
            if is_clique(matrix, around):
                left.remove(vertex)
                break
        else:
            return False
    return True


def brute_force_maximal_cliques(matrix):
    size = len(matrix)
    found = [
        frozenset(v for v in range(size) if bits >> v & 1)
        for bits in range(1, 2**size)
        if is_clique(matrix, [v for v in range(size) if bits >> v & 1])
    ]
    return {c for c in found if not any(c < other for other in found)}


@given(graphs())
def test_rows_are_symmetric_sorted_and_count_edges(graph):
    matrix = adjacency(graph)
    assert (matrix == matrix.T).all()
    assert not matrix.diagonal().any()
    assert graph.num_edges == matrix.sum() // 2 == len(graph.edges())
    for vertex in range(graph.num_vertices):
        assert list(graph.neighbours(vertex)) == sorted(graph.neighbours(vertex))
        assert graph.degree(vertex) == len(graph.neighbours(vertex))
        for other in range(graph.num_vertices):
            assert graph.has_edge(vertex, other) == matrix[vertex, other]
    parts = [v for part in graph.components() for v in part]
    assert sorted(parts) == list(range(graph.num_vertices))


@given(graphs(), seeds)
def test_every_rule_gives_an_order_and_its_completion_is_chordal_and_contains_the_graph(
    graph, seed
):
    sizes = np.random.default_rng(seed).integers(1, 5, graph.num_vertices).tolist()
    rng = np.random.default_rng(seed)
    for order in (
        min_fill_order(graph),
        min_fill_order(graph, rng),
        min_weight_order(graph, sizes),
        min_weight_order(graph, sizes, rng),
        sweep_order(graph),
        best_elimination(graph, sizes).order,
    ):
        assert sorted(order) == list(range(graph.num_vertices))
        completed = chordal_completion(graph, order=order)
        assert completed.contains(graph)
        assert brute_force_is_chordal(adjacency(completed))
        assert is_perfect_order(completed, completed.order)


@given(graphs(), seeds)
def test_fronts_equal_elimination_by_hand(graph, seed):
    order = np.random.default_rng(seed).permutation(graph.num_vertices).tolist()
    elimination = eliminate(graph, order)
    matrix = adjacency(graph)
    left = set(range(graph.num_vertices))
    for vertex in order:
        left.remove(vertex)
        around = [other for other in left if matrix[vertex, other]]
        assert set(elimination.fronts[vertex]) == set(around)
        assert list(elimination.fronts[vertex]) == sorted(around, key=order.index)
        for a in around:
            for b in around:
                matrix[a, b] |= a != b
    assert elimination.width == max((len(f) for f in elimination.fronts), default=0)


@given(graphs())
def test_min_fill_costs_are_right_at_every_step(graph):
    """The incremental costs never drift: each chosen vertex really adds the fewest edges."""
    matrix = adjacency(graph)
    left = set(range(graph.num_vertices))

    def missing(vertex):
        around = [other for other in left if matrix[vertex, other]]
        return sum(not matrix[a, b] for i, a in enumerate(around) for b in around[:i])

    for vertex in min_fill_order(graph):
        assert missing(vertex) == min(missing(other) for other in left)
        left.remove(vertex)
        around = [other for other in left if matrix[vertex, other]]
        for a in around:
            for b in around:
                matrix[a, b] |= a != b


@given(graphs())
def test_perfect_order_check_agrees_with_its_definition(graph):
    matrix = adjacency(graph)
    order = list(range(graph.num_vertices))
    expected = all(
        is_clique(matrix, [other for other in order[place + 1 :] if matrix[vertex, other]])
        for place, vertex in enumerate(order)
    )
    assert is_perfect_order(graph, order) == expected


@given(graphs())
def test_maximum_cardinality_search_finds_a_perfect_order_exactly_on_chordal_graphs(graph):
    is_chordal = brute_force_is_chordal(adjacency(graph))
    assert is_perfect_order(graph, maximum_cardinality_order(graph)) == is_chordal
    if is_chordal:
        assert ChordalGraph.from_graph(graph) == graph
        assert chordal_completion(graph) == graph
    else:
        with pytest.raises(GraphError, match="perfect elimination order"):
            ChordalGraph.from_graph(graph)


@settings(max_examples=40)
@given(graphs().filter(lambda graph: graph.num_vertices <= 9))
def test_maximal_cliques_equal_brute_force(graph):
    chordal = chordal_completion(graph)
    expected = brute_force_maximal_cliques(adjacency(chordal))
    assert {frozenset(clique) for clique in chordal.cliques} == expected
    assert len(chordal.cliques) == len(expected)
    for vertex in range(graph.num_vertices):
        home = set(chordal.cliques[chordal.clique_of[vertex]])
        assert {vertex, *chordal.elimination.fronts[vertex]} <= home


@given(graphs(), seeds)
def test_junction_trees_have_the_running_intersection_property(graph, seed):
    chordal = chordal_completion(graph)
    for rng in (None, np.random.default_rng(seed)):
        tree = junction_tree(chordal, rng)
        assert sum(parent < 0 for parent in tree.parents) == len(graph.components())
        for vertex in range(graph.num_vertices):
            holders = {i for i, c in enumerate(chordal.cliques) if vertex in c}
            tops = [i for i in holders if tree.parents[i] not in holders]
            assert len(tops) == 1  # one connected subtree


@given(graphs(), seeds)
def test_random_dags_are_acyclic_immorality_free_orientations(graph, seed):
    chordal = chordal_completion(graph)
    dag = random_dag(chordal, np.random.default_rng(seed))
    place = {vertex: position for position, vertex in enumerate(dag.order)}
    matrix = adjacency(chordal)
    arcs = {(p, c) for c, row in enumerate(dag.parents) for p in row}
    assert arcs == {(p, c) for p, row in enumerate(dag.children) for c in row}
    assert {frozenset(arc) for arc in arcs} == {frozenset(e) for e in chordal.edges().tolist()}
    assert all(place[parent] < place[child] for parent, child in arcs)
    assert all(is_clique(matrix, row) for row in dag.parents)
    assert moral_graph(dag.parents) == chordal
    depth = {v: level for level, row in enumerate(dag.levels) for v in row}
    assert sorted(depth) == list(range(graph.num_vertices))
    for child, row in enumerate(dag.parents):
        assert depth[child] == max((depth[p] + 1 for p in row), default=0)


@given(graphs().filter(lambda graph: graph.num_vertices > 0), seeds)
def test_sub_dags_cover_the_closed_neighbourhood(graph, seed):
    chordal = chordal_completion(graph)
    vertex = seed % graph.num_vertices
    sub = random_sub_dag(chordal, vertex, np.random.default_rng(seed))
    assert sub.vertices == chordal.closed_neighbourhood(vertex)
    assert sub.dag.skeleton == chordal.induced(sub.vertices)


@given(graphs(), seeds)
def test_removing_vertices_keeps_a_chordal_graph_chordal(graph, seed):
    chordal = chordal_completion(graph)
    kept = np.flatnonzero(np.random.default_rng(seed).random(graph.num_vertices) < 0.6).tolist()
    part = chordal.induced(kept)
    assert isinstance(part, ChordalGraph)
    assert (adjacency(part) == adjacency(chordal)[np.ix_(kept, kept)]).all()


@given(graphs(), seeds)
def test_relabelling_changes_nothing_but_names(graph, seed):
    number = np.random.default_rng(seed).permutation(graph.num_vertices)
    other = graph.relabelled(number)
    assert (adjacency(other)[np.ix_(number, number)] == adjacency(graph)).all()
    order = min_fill_order(graph)
    renamed = [int(number[vertex]) for vertex in order]
    ours, theirs = eliminate(graph, order), eliminate(other, renamed)
    for vertex in range(graph.num_vertices):
        assert [int(number[v]) for v in ours.fronts[vertex]] == list(theirs.fronts[number[vertex]])


@given(graphs(), seeds)
def test_same_seed_same_dag(graph, seed):
    chordal = chordal_completion(graph)
    first = random_dag(chordal, np.random.default_rng(seed))
    assert first.order == random_dag(chordal, np.random.default_rng(seed)).order


@given(graphs(), seeds)
def test_dag_refuses_immoralities(graph, seed):
    order = tuple(np.random.default_rng(seed).permutation(graph.num_vertices).tolist())
    matrix = adjacency(graph)
    is_moral = all(
        is_clique(matrix, [other for other in order[:place] if matrix[vertex, other]])
        for place, vertex in enumerate(order)
    )
    if is_moral:
        assert Dag(graph, order).order == order
    else:
        with pytest.raises(GraphError, match="immorality"):
            Dag(graph, order)
