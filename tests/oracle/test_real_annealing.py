"""Chains over real variables that are cooled from a reference, against closed forms and sums."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from deltaai.errors import StateError
from deltaai.importance import estimate_from_log_weights
from deltaai.mcmc import (
    HamiltonianKernel,
    Reference,
    Start,
    cool,
    explored,
    planned,
    wide_reference,
)
from deltaai.models import (
    FactorGraph,
    FunctionFactor,
    GaussianFactor,
    LinearGaussian,
    MixtureFactor,
    QuadraticFactor,
    TableFactor,
    Variable,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def line(count):
    return [Variable(f"x{number}", support="line") for number in range(count)]


def mixture(means, deviations, weights, names=("x0", "x1")):
    parts = [
        GaussianFactor(names, mean, np.eye(len(names)) * deviation**2)
        for mean, deviation in zip(means, deviations, strict=True)
    ]
    model = FactorGraph(line(len(names)), [MixtureFactor(parts, np.log(weights))])
    return model, math.log(sum(weights))


def banana():
    def function(v):
        return -0.5 * v[:, 0] ** 2 - 2 * (v[:, 1] - v[:, 0] ** 2) ** 2

    model = FactorGraph(line(2), [FunctionFactor(["x0", "x1"], function)])
    return model, math.log(2 * math.pi) - math.log(2.0)


def cut():
    variables = [Variable("b", support=(-1, 2)), Variable("u", support=(0.5, None))]
    factors = [
        QuadraticFactor("b", 1.0, [1.5]),
        QuadraticFactor("u", 2.0, [-1.0]),
        QuadraticFactor(["b", "u"], [[0.0, 0.3], [0.3, 0.0]]),
    ]
    model = FactorGraph(variables, factors)

    def density(u, b):
        return float(model.log_score(torch.tensor([[b, u]]).double()).exp())

    return model, math.log(integrate.dblquad(density, -1, 2, 0.5, 12)[0])


def mixed():
    model = FactorGraph(
        [Variable("s", 2), Variable("x0", support="line"), Variable("t", 3)],
        [
            TableFactor(["s", "t"], [[0.5, 0.0, 1.0], [0.0, 0.3, -1.0]]),
            LinearGaussian("x0", given=["s"], bias=[-8.0, 8.0], scale=[0.5, 1.0]),
            FunctionFactor(["x0", "t"], lambda v: torch.cos(v[:, 0]) * v[:, 1]),
        ],
    )
    total = 0.0
    for s in range(2):
        for t in range(3):

            def density(x, s=s, t=t):
                return float(model.log_score(torch.tensor([[s, x, t]]).double()).exp())

            total += integrate.quad(density, -30, 30, points=[-8, 8], limit=200)[0]
    return model, math.log(total)


MODELS = {
    "normal": lambda: (
        FactorGraph(
            line(3),
            [
                GaussianFactor(
                    ["x0", "x1", "x2"],
                    [5.0, -100.0, 0.0],
                    [[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1e4]],
                )
            ],
        ),
        0.0,
    ),
    "two modes": lambda: mixture([[-15.0, 0.0], [15.0, 3.0]], [1.0, 0.5], [0.3, 0.9]),
    "three modes": lambda: mixture(
        [[0.0, 0.0], [40.0, 0.0], [0.0, -60.0]], [1.0, 0.7, 1.5], [0.2, 0.5, 0.3]
    ),
    "banana": banana,
    "cut": cut,
    "mixed": mixed,
}


def exploration(model, seed=0):
    randomness = generator(seed)
    kernel = HamiltonianKernel(model, reference=wide_reference(model, randomness), num_leapfrog=8)
    return explored(kernel, randomness)


def families(found, seed, num_chains=600, times=3):
    """Chains that meet, with several temperatures for each that is suitable."""
    randomness, count = generator(seed), len(found.betas)
    places = np.linspace(0, count - 1, times * (count - 1) + 1)
    betas = np.interp(places, np.arange(count), found.betas).tolist()
    start = Start.hottest(found.kernel, num_chains, randomness)
    return cool(found.kernel, start, betas, 1, randomness, may_meet=True).families(randomness)


@pytest.mark.parametrize("name", MODELS)
def test_log_partition_lies_within_its_error(name):
    model, wanted = MODELS[name]()
    found_by = exploration(model)
    for seed in range(3):
        states, log_weights = families(found_by, seed)
        model.check_states(states)
        found = estimate_from_log_weights(log_weights)
        assert abs(found.log_partition - wanted) < 4 * found.stderr
        assert found.stderr < 0.2


def test_errors_of_log_partition_are_neither_too_small_nor_too_large():
    model, wanted = MODELS["two modes"]()
    found = exploration(model)
    runs = [estimate_from_log_weights(families(found, seed, 200)[1]) for seed in range(25)]
    scaled = np.array([(run.log_partition - wanted) / run.stderr for run in runs])
    assert 0.5 < np.sqrt((scaled**2).mean()) < 1.6


def test_modes_have_their_shares():
    model, _ = MODELS["three modes"]()
    states, log_weights = families(exploration(model), 0, 1500)
    weights = log_weights.softmax(0)
    centres = torch.tensor([[0.0, 0.0], [40.0, 0.0], [0.0, -60.0]]).double()
    nearest = torch.cdist(states, centres).argmin(1)
    shares = torch.zeros(3).double().index_add_(0, nearest, weights)
    effective = 1 / float(weights.square().sum())
    wanted = torch.tensor([0.2, 0.5, 0.3]).double()
    assert float((shares - wanted).abs().max()) < 4 * 0.5 / effective**0.5
    assert effective > 100


def test_a_narrow_reference_would_lose_a_mode_and_not_know():
    """Why references are wide."""
    model, wanted = MODELS["two modes"]()
    one = torch.ones(2).double()
    near = Reference.normal(model, torch.tensor([-15.0, 0.0]).double(), one)
    found = explored(HamiltonianKernel(model, reference=near), generator())
    start = Start.hottest(found.kernel, 400, generator())
    log_weights = cool(found.kernel, start, found.betas, 1, generator()).log_weights
    estimate = estimate_from_log_weights(log_weights)
    assert estimate.log_partition < wanted - 10 * estimate.stderr


def test_a_wrong_slope_is_noticed(monkeypatch):
    """Power: weights by log p~ alone, as if the path began with a flat density."""
    model, wanted = MODELS["banana"]()
    monkeypatch.setattr(HamiltonianKernel, "log_slope", HamiltonianKernel.log_score)
    found = estimate_from_log_weights(families(exploration(model), 0)[1])
    assert abs(found.log_partition - wanted) > 10 * found.stderr


def test_a_plan_goes_by_suitable_temperatures():
    model, wanted = MODELS["two modes"]()
    randomness = generator()
    kernel = HamiltonianKernel(model, reference=wide_reference(model, randomness), num_leapfrog=8)
    found = explored(kernel, randomness)
    pilot = Start.hottest(found.kernel, 64, randomness)
    plan = planned(found.kernel, pilot, 5e8, 1000, 300.0, randomness, suitable=found.betas)
    assert (plan.betas[0], plan.betas[-1]) == (0.0, 1.0)
    assert 100 <= plan.num_chains <= 1000
    start = Start.hottest(found.kernel, plan.num_chains, randomness)
    cooled = cool(found.kernel, start, plan.betas, plan.num_sweeps, randomness, may_meet=True)
    estimate = estimate_from_log_weights(cooled.families(randomness)[1])
    assert abs(estimate.log_partition - wanted) < 4 * estimate.stderr


def test_parts_that_are_impossible_cost_chains_and_no_bias():
    def function(v):
        return torch.where(v[:, 0] > 1, -0.5 * (v[:, 0] - 2) ** 2, -torch.inf)

    model = FactorGraph([Variable("x0", support=(-4, 4))], [FunctionFactor(["x0"], function)])
    wanted = math.log(stats.norm.cdf(2) - stats.norm.cdf(-1)) + 0.5 * math.log(2 * math.pi)
    found = estimate_from_log_weights(families(exploration(model), 0)[1])
    assert abs(found.log_partition - wanted) < 4 * found.stderr


def test_a_model_that_is_impossible_is_refused():
    model = FactorGraph(
        [Variable("x0", support=(0, 1))],
        [FunctionFactor(["x0"], lambda v: torch.full_like(v[:, 0], -torch.inf))],
    )
    with pytest.raises(StateError, match="probability zero wherever"):
        explored(HamiltonianKernel(model), generator())


def test_it_repeats_with_the_generator():
    model, _ = MODELS["mixed"]()
    first, second = (families(exploration(model, 7), 7, 50) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
