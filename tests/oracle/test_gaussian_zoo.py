"""Gaussian models of the zoo: the energy that is written, and exact answers of any size."""

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.exact import gaussian_field


@pytest.mark.parametrize(
    ("make", "num_edges"),
    [
        (lambda seed: dai.zoo.gaussian_lattice(side=4, coupling=1.5, seed=seed, ridge=0.3), 24),
        (lambda seed: dai.zoo.gaussian_tree(num_variables=20, coupling=2.0, seed=seed), 19),
        (lambda seed: dai.zoo.gaussian_lattice(side=1, coupling=1.0, seed=seed), 0),
        (lambda seed: dai.zoo.gaussian_tree(num_variables=1, coupling=1.0, seed=seed), 0),
    ],
)
def test_the_same_seed_gives_the_same_model(make, num_edges):
    model = make(0)
    assert model.content_hash() == make(0).content_hash() != make(1).content_hash()
    graph = model.markov_graph()
    assert graph.num_edges == num_edges
    assert len(graph.components()) == 1
    found = dai.query(model)
    precision = gaussian_field(model).precision.toarray()
    shift = gaussian_field(model).shift
    means, variances = np.linalg.solve(precision, shift), np.linalg.inv(precision).diagonal()
    np.testing.assert_allclose([m.mean for m in found.marginals.values()], means)
    np.testing.assert_allclose([m.variance for m in found.marginals.values()], variances)


def test_scores_are_the_energy_that_is_written():
    model = dai.zoo.gaussian_lattice(side=2, coupling=1.5, seed=3, ridge=0.3)
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pairs, fields = model.groups
    wanted = x @ fields.shift[:, 0] - 0.15 * x.square().sum(1)
    for (u, v), square in zip(pairs.scopes.tolist(), pairs.precision, strict=True):
        sign = -float(square[0, 1]) / 1.5
        assert abs(sign) == 1
        wanted -= 0.75 * (x[:, u] - sign * x[:, v]) ** 2
    assert torch.allclose(model.log_score(x), wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dai.zoo.gaussian_lattice(side=0, coupling=1.0, seed=0),
        lambda: dai.zoo.gaussian_lattice(side=3, coupling=-1.0, seed=0),
        lambda: dai.zoo.gaussian_lattice(side=3, coupling=1.0, seed=0, ridge=0.0),
        lambda: dai.zoo.gaussian_lattice(side=3, coupling=float("nan"), seed=0),
        lambda: dai.zoo.gaussian_tree(num_variables=0, coupling=1.0, seed=0),
        lambda: dai.zoo.gaussian_tree(num_variables=3, coupling=1.0, seed=-1),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make):
    with pytest.raises(dai.DeltaAIError) as caught:
        make()
    assert "\n" not in str(caught.value)
