"""The energy of poses against its networks by hand, and against quadrature."""

import numpy as np
import pytest
import torch

from deltaai.errors import ModelError
from deltaai.io import ScaledPoses, synthetic_poses
from deltaai.models import zoo
from deltaai.randomness import generator_of


def uniform_rows(number, columns, seed=0):
    drawn = torch.rand(number, columns, generator=generator_of(seed), dtype=torch.float64)
    return 2 * drawn - 1


def test_the_score_is_the_sum_of_a_network_an_edge():
    scaled = ScaledPoses.of(synthetic_poses())
    model = zoo.pose_energy(scaled.nodes, scaled.edges, 0, hidden=16)
    assert model.num_factors == len(scaled.edges) == len(scaled.nodes) - 1
    assert tuple(variable.name for variable in model.variables) == scaled.column_names
    assert [name for name, _ in model.nodes] == [name for name, _ in scaled.nodes]
    rows, expected = scaled.train[:30], torch.zeros(30, dtype=torch.float64)
    columns = {name: list(places) for name, places in model.nodes}
    scopes = set()
    for group in model.groups:
        for factor in group.as_factors(model.variables):
            nodes = list(dict.fromkeys(name.partition("[")[0] for name in factor.scope))
            scopes.add(tuple(nodes))
            inputs = rows[:, [place for node in nodes for place in columns[node]]]
            assert inputs.shape[1] == len(factor.scope) <= 6
            expected += factor.module(inputs).squeeze(1)
    names = [name for name, _ in scaled.nodes]
    assert scopes == {(names[first], names[second]) for first, second in scaled.edges}
    assert torch.allclose(model.log_score(rows), expected, atol=1e-12)


def test_changes_of_one_joint_are_seen_by_its_neighbours_only():
    model = zoo.pose_energy([("a", 2), ("b", 1), ("c", 3)], [(0, 1), (1, 2)], 1, hidden=8)
    rows = uniform_rows(20, 6)
    moved = rows.clone()
    moved[:, :2] = uniform_rows(20, 2, seed=1)
    before = model.log_score(moved) - model.log_score(rows)
    rows[:, 3:] = moved[:, 3:] = uniform_rows(20, 3, seed=2)
    assert torch.allclose(model.log_score(moved) - model.log_score(rows), before, atol=1e-12)
    assert float(before.detach().abs().min()) > 0


def test_weights_learn_and_rows_have_slopes():
    model = zoo.pose_energy([("a", 3), ("b", 1)], [(0, 1)], 0, hidden=8)
    rows = uniform_rows(20, 4).requires_grad_()
    model.log_score(rows).sum().backward()
    weights = [value for group in model.groups for value in group.parameters()]
    assert len(weights) == 6  # of three layers
    assert all(bool(value.grad.abs().sum() > 0) for value in weights)
    step = 1e-6
    for column in range(4):
        shift = torch.zeros(4, dtype=torch.float64)
        shift[column] = step
        with torch.no_grad():
            slope = (model.log_score(rows + shift) - model.log_score(rows - shift)) / (2 * step)
        assert torch.allclose(rows.grad[:, column], slope, atol=1e-6)


def test_it_can_be_normalised():
    model = zoo.pose_energy([("a", 1), ("b", 1)], [(0, 1)], 3, hidden=8)

    points, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(200))
    grid = torch.cartesian_prod(points, points)
    with torch.no_grad():
        mass = torch.cartesian_prod(weights, weights).prod(1) @ model.log_score(grid).exp()
        drawn = 4 * model.log_score(uniform_rows(20_000, 2)).exp().mean()
    assert float(drawn) == pytest.approx(float(mass), rel=0.02)


def test_seeds_and_generators():
    first, again, other = (zoo.pose_energy([("a", 2)], [], seed, hidden=4) for seed in (5, 5, 6))
    drawn = zoo.pose_energy([("a", 2)], [], generator_of(5), hidden=4)
    rows = uniform_rows(9, 2)
    assert torch.equal(first.log_score(rows), again.log_score(rows))
    assert torch.equal(first.log_score(rows), drawn.log_score(rows))
    assert not torch.equal(first.log_score(rows), other.log_score(rows))
    single = zoo.pose_energy([("a", 2)], [], 5, hidden=4, dtype=torch.float32)
    assert single.log_score(rows).dtype == torch.float32


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        ([("a", 0)], [], {}, "coordinates of 'a' must be an integer of at least 1"),
        ([("a",)], [], {}, "give a name and a number"),
        ([(1, 1)], [], {}, "give a text"),
        ([("a", 1), ("a", 2)], [], {}, "have one name"),
        ([("a", 1)], [(0, 0)], {}, "two different numbers of nodes, from 0 to 0"),
        ([("a", 1), ("b", 1)], [(0, 2)], {}, "from 0 to 1"),
        ([("a", 1), ("b", 1)], [(0, 1.0)], {}, "from 0 to 1"),
        ([("a", 1), ("b", 1)], [(0, 1), (1, 0)], {}, "an edge is there twice"),
        ([("a", 1)], [], {"hidden": 0}, "hidden must be an integer of at least 1"),
        ("hip", [], {}, "nodes is 'hip': give a list of pairs"),
    ],
)
def test_bad_bodies_are_one_clear_line(nodes, edges, options, message, as_a_user_runs_it):
    with pytest.raises(ModelError, match=message) as caught:
        zoo.pose_energy(nodes, edges, 0, **options)
    assert str(caught.value).isprintable()
