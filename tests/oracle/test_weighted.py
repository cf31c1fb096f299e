"""Weighted samples: means, errors, bounds and moves, against brute force."""

import math

import numpy as np
import pytest
import torch

from deltaai.exact.enumeration import Enumeration
from deltaai.models import FactorGraph, Variable, zoo
from deltaai.trust.weighted import WeightedSamples

MODEL = zoo.random_factor_graph(6, 8, max_states=3, max_arity=3, seed=0).to(dtype=torch.float64)
OBSERVED = {2: 1}


def uniform_samples(number, seed, group_size=1):
    """Uniform states that agree with the evidence, so weights are scores times their number."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(number, MODEL.num_variables, generator=generator, dtype=torch.float64)
    states = (chance * MODEL.num_states).long()
    states[:, 2] = 1
    free = math.prod(MODEL.num_states.tolist()) / int(MODEL.num_states[2])
    log_weights = MODEL.log_score(states).double() + math.log(free)
    return WeightedSamples(MODEL, states, log_weights, OBSERVED, group_size)


@pytest.fixture(scope="module")
def oracle():
    names = [variable.name for variable in MODEL.variables]
    return Enumeration(MODEL.condition({names[2]: 1}))


def test_means_are_weighted_means_of_conditionals():
    drawn = uniform_samples(500, seed=0)
    weights = drawn.log_weights.softmax(0)
    scores = MODEL.local_log_scores(drawn.states).double()
    offsets = MODEL.state_offsets.tolist()
    for number, variable in enumerate(MODEL.variables):
        row = drawn.marginals()[variable.name]
        if number == 2:
            assert row.tolist() == np.eye(variable.num_states)[1].tolist()
            continue
        local = scores[:, offsets[number] : offsets[number + 1]].softmax(1)
        np.testing.assert_allclose(row, (weights @ local).numpy(), atol=1e-12)


@pytest.mark.parametrize("group_size", [1, 20])
def test_errors_are_the_spread_over_repetitions(group_size):
    """The mean of the squared errors that are claimed is the variance of what is estimated."""
    runs = [uniform_samples(2000, seed, group_size) for seed in range(60)]
    for name in [variable.name for variable in MODEL.variables if variable.name != "x2"]:
        values = np.array([run.marginals()[name][0] for run in runs])
        claimed = np.array([run.marginal_errors()[name][0] for run in runs])
        assert np.sqrt(np.mean(claimed**2)) == pytest.approx(values.std(), rel=0.35, abs=1e-8)
    log_z = np.array([run.estimate.log_partition for run in runs])
    errors = np.array([run.estimate.stderr for run in runs])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(log_z.std(), rel=0.35)


def test_the_lower_bound_is_below_nearly_always(oracle):
    truth = oracle.log_partition()
    bounds = [uniform_samples(500, seed).lower_bound for seed in range(200)]
    assert np.mean(np.array(bounds) < truth) > 0.95
    assert np.median(bounds) > truth - 1.0


def test_a_bound_needs_several_parts():
    assert uniform_samples(1, seed=0).lower_bound == -math.inf


@pytest.mark.parametrize("group_size", [1, 50])
def test_moves_keep_log_z_and_the_distribution(oracle, group_size):
    drawn = uniform_samples(20_000, seed=1, group_size=group_size)
    moved = drawn.rejuvenated(3, torch.Generator().manual_seed(2))
    assert moved.estimate.log_partition == pytest.approx(drawn.estimate.log_partition, abs=1e-9)
    assert bool((moved.states[:, 2] == 1).all())
    assert not bool((moved.states == drawn.states).all())
    truth = oracle.marginals()
    counted = moved.log_weights.softmax(0)
    for number, variable in enumerate(MODEL.variables):
        if number == 2:
            continue
        found = [
            float(counted[moved.states[:, number] == state].sum())
            for state in range(variable.num_states)
        ]
        np.testing.assert_allclose(found, truth[variable.name], atol=0.05)


def test_nothing_to_move():
    drawn = uniform_samples(10, seed=0)
    assert drawn.rejuvenated(0).states is not None
    assert bool((drawn.rejuvenated(0).states == drawn.states).all())


def test_what_is_too_rare_to_be_drawn_is_in_the_error_of_log_z():
    """Even weights of all draws, and states of no weight that none of them met."""
    share, count = 0.002, 400
    log_weights = torch.zeros(count, dtype=torch.float64)
    log_weights[0] = -1e-6  # not exactly even: an exact sampler's weights are
    states = torch.zeros(count, 1, dtype=torch.long)
    found = WeightedSamples(FactorGraph([Variable("a")], []), states, log_weights, {}).estimate
    assert abs(found.log_partition - math.log1p(-share)) < 1.96 * found.stderr
    even = WeightedSamples(FactorGraph([Variable("a")], []), states, 0 * log_weights, {}).estimate
    assert even.stderr < 1e-6
