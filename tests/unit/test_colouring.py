"""Colourings are proper, small where they must be, and the same in every run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaai.graphs.colouring import greedy_colouring
from deltaai.graphs.undirected import UndirectedGraph
from deltaai.models import zoo


@st.composite
def graphs(draw):
    count = draw(st.integers(0, 12))
    vertices = st.integers(0, max(count - 1, 0))
    pairs = draw(st.lists(st.tuples(vertices, vertices), max_size=40 if count else 0))
    return UndirectedGraph.from_edges(count, [(a, b) for a, b in pairs if a != b])


@given(graphs())
def test_no_two_neighbours_share_a_colour(graph):
    classes = greedy_colouring(graph)
    assert sorted(v for members in classes for v in members) == list(range(graph.num_vertices))
    colour = {v: number for number, members in enumerate(classes) for v in members}
    assert all(colour[a] != colour[b] for a, b in graph.edges().tolist())
    degrees = [graph.degree(v) for v in range(graph.num_vertices)]
    assert len(classes) <= max(degrees, default=-1) + 1
    assert all(members == tuple(sorted(members)) for members in classes)


@given(graphs())
def test_two_colours_where_two_are_enough(graph):
    """Doubling every vertex, with edges only between the two copies, makes any graph bipartite."""
    edges, second = graph.edges(), np.array([0, graph.num_vertices])
    doubled = np.concatenate((edges + second, edges[:, ::-1] + second))
    assert len(greedy_colouring(UndirectedGraph.from_edges(2 * graph.num_vertices, doubled))) <= 2


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (zoo.ising_lattice(side=9, sigma=0.2, seed=0), 2),
        (zoo.ising_torus(side=6, sigma=0.2, seed=0), 2),
        (zoo.ising_torus(side=7, sigma=0.2, seed=0), 3),
        (zoo.factor_lattice(side=6, sigma=0.2, seed=0), 4),
    ],
)
def test_lattices(model, count):
    assert len(greedy_colouring(model.markov_graph())) == count


def test_no_vertices():
    assert greedy_colouring(UndirectedGraph.from_edges(0, [])) == ()
