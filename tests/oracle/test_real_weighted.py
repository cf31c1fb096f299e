"""Weighted samples of real variables: bins, their errors, and moves, against closed forms."""

import numpy as np
import pytest
import torch
from scipy import stats

from deltaai.models import FactorGraph, GaussianFactor, LinearGaussian, TableFactor, Variable
from deltaai.trust.cells import NUM_BINS
from deltaai.trust.verdicts import judge_marginals
from deltaai.trust.weighted import WeightedSamples

MODEL = FactorGraph(
    [Variable("x", support="line"), Variable("s", 3), Variable("y", support="line")],
    [
        GaussianFactor("x", 0.0, 1.0),
        LinearGaussian("y", ["x"], [[1.0], [1.0], [-1.0]], [0.0, 1.0, 0.0], 1.0, given=["s"]),
        TableFactor(["s"], [0.1, 0.0, -0.3]),
    ],
)


def drawn(count, seed, group_size=1, width=1.5):
    """From something wider than the model."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, generator=generator).double() * width
    y = torch.randn(count, generator=generator).double() * 2
    s = torch.randint(3, (count,), generator=generator).double()
    states = torch.stack((x, s, y), 1)
    log_q = stats.norm.logpdf(x.numpy(), scale=width) + stats.norm.logpdf(y.numpy(), scale=2)
    return WeightedSamples(
        MODEL, states, MODEL.log_score(states) - torch.from_numpy(np.asarray(log_q)), {}, group_size
    )


def bins(samples, variable, which=0):
    """Means of a variable's cells, or their errors."""
    first, last = samples.cells.offsets[variable : variable + 2].tolist()
    return samples.moments[which][first:last].numpy()


def test_bins_part_the_weight_evenly():
    samples = drawn(4000, 0)
    for variable in (0, 2):
        assert len(bins(samples, variable)) == NUM_BINS
        np.testing.assert_allclose(bins(samples, variable), 1 / NUM_BINS, atol=2e-3)
    assert len(bins(samples, 1)) == 3


def test_users_see_means_and_deviations():
    samples = drawn(4000, 0)
    found = samples.marginals()
    assert abs(found["x"].mean) < 4 * found["x"].stderr < 0.15
    assert found["x"].deviation == pytest.approx(1.0, abs=4 * found["x"].deviation_stderr)
    assert list(samples.marginal_errors()) == ["s"]
    assert samples.marginals(is_weighted=False)["x"].deviation == pytest.approx(1.5, abs=0.1)


def test_states_are_weighed_by_their_probabilities_given_all_others():
    samples = drawn(300, 1)
    mean = torch.zeros(3).double()
    for row, weight in zip(samples.states, samples.log_weights.softmax(0), strict=True):
        each = row.repeat(3, 1)
        each[:, 1] = torch.arange(3)
        mean += weight * MODEL.log_score(each).softmax(0)
    np.testing.assert_allclose(samples.marginals()["s"], mean.numpy(), atol=1e-12)


@pytest.mark.parametrize("group_size", [1, 20])
def test_errors_are_the_spread_over_repetitions(group_size):
    cells = drawn(4000, 99).cells
    runs = [drawn(2000, seed, group_size).on(cells) for seed in range(60)]
    values = torch.stack([run.moments[0] for run in runs])
    claimed = torch.stack([run.moments[1] for run in runs]).square().mean(0).sqrt()
    ratio = claimed / values.std(0)
    assert float(ratio.min()) > 0.75
    assert float(ratio.max()) < 1.5
    edges = torch.cat((torch.tensor([-torch.inf]), cells.edges[0], torch.tensor([torch.inf])))
    wanted = np.diff(stats.norm.cdf(edges.numpy()))
    found = values.mean(0)[: len(wanted)].numpy()
    np.testing.assert_allclose(found, wanted, atol=5 * float(claimed.max()) / 60**0.5)


def test_two_sets_are_compared_on_the_bins_of_one():
    first, second = drawn(4000, 0), drawn(4000, 1)
    assert second.on(first.cells).cells is first.cells
    assert judge_marginals(first, second) == ()
    shifted = WeightedSamples(
        MODEL, first.states + torch.tensor([0.3, 0.0, 0.0]), first.log_weights, {}
    )
    (doubt,) = judge_marginals(shifted, second)
    assert "P(x " in doubt


def test_few_distinct_values_have_few_bins():
    states = torch.tensor([[0.5, 1.0, 2.0]]).double().repeat(50, 1)
    samples = WeightedSamples(MODEL, states, torch.zeros(50).double(), {})
    np.testing.assert_allclose(bins(samples, 0), [0.0, 1.0])
    assert samples.largest_error < 0.05


def test_what_is_observed_is_certain():
    samples = drawn(100, 0)
    states = samples.states.clone()
    states[:, 0], states[:, 1] = 0.7, 2
    given = WeightedSamples(MODEL, states, samples.log_weights, {0: 0.7, 1: 2})
    assert bins(given, 0).tolist() == [1.0]
    assert (given.marginals()["x"].mean, given.marginals()["x"].deviation) == (0.7, 0.0)
    assert given.marginals()["s"].tolist() == [0.0, 0.0, 1.0]
    assert bins(given, 0, 1).tolist() == [0.0]


@pytest.mark.parametrize("group_size", [1, 50])
def test_moves_keep_log_z_and_the_distribution(group_size):
    samples = drawn(4000, 2, group_size)
    moved = samples.rejuvenated(5, torch.Generator().manual_seed(3))
    assert moved.estimate.log_partition == pytest.approx(samples.estimate.log_partition, abs=1e-9)
    MODEL.check_states(moved.states)
    assert float((moved.states[:, 0] == samples.states[:, 0]).double().mean()) < 0.1
    weights = moved.log_weights.softmax(0).numpy()
    x = moved.states[:, 0].numpy()
    assert weights @ x == pytest.approx(0.0, abs=0.08)
    assert weights @ x**2 == pytest.approx(1.0, abs=0.12)
    again = samples.rejuvenated(5, torch.Generator().manual_seed(3))
    assert torch.equal(again.states, moved.states)
    apart = samples.sample_apart(200, torch.Generator().manual_seed(4))
    assert len(torch.unique(apart[:, 0])) > 150


def test_moves_leave_what_is_observed():
    samples = drawn(200, 0)
    for observed in ({0: 0.7}, {1: 2}, {0: 0.7, 2: 1.0}):
        states = samples.states.clone()
        for variable, value in observed.items():
            states[:, variable] = value
        given = WeightedSamples(MODEL, states, torch.zeros(200).double(), observed, 20)
        moved = given.refined(torch.Generator().manual_seed(0))
        assert torch.equal(moved.states[:, list(observed)], states[:, list(observed)])
        assert not torch.equal(moved.states, states)
