"""Hamiltonian chains by example: repeatability, what is impossible, and what is refused."""

import math

import pytest
import torch

from deltaai.errors import ConfigError, DeltaAIError, StateError
from deltaai.mcmc import KERNELS, HamiltonianKernel, Reference, adapted, build_kernel, run_chains
from deltaai.mcmc.walls import Walls
from deltaai.models import (
    FactorGraph,
    FunctionFactor,
    GaussianFactor,
    NeuralFactor,
    TableFactor,
    Variable,
    zoo,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def model_of(function, support="line"):
    return FactorGraph([Variable("x", support=support)], [FunctionFactor(["x"], function)])


MIXED = FactorGraph(
    [Variable("s", 2), Variable("x", support=(-1, 1)), Variable("y", support=(0, None))],
    [
        TableFactor(["s"], [0.0, 1.0]),
        FunctionFactor(["s", "x", "y"], lambda v: v[:, 0] * v[:, 1] - v[:, 2] * (1 + v[:, 1])),
    ],
)


def test_a_step_is_a_value_and_repeats_with_the_generator():
    kernel = build_kernel("hmc", MIXED)
    state = kernel.init(50, generator())
    before = {name: torch.clone(v) for name, v in vars(state).items() if torch.is_tensor(v)}
    first, info = run_chains(kernel, state, 4, generator(1))
    again, same = run_chains(build_kernel("hmc", MIXED), state, 4, generator(1))
    assert torch.equal(first.columns, again.columns)
    assert info == same
    for name, value in before.items():
        assert torch.equal(getattr(state, name), value)
    MIXED.check_states(first.states)
    assert first.states.dtype == torch.float64


def test_a_warm_up_repeats_with_the_generator():
    found = [adapted(HamiltonianKernel(MIXED), 40, generator(3), num_steps=20) for _ in range(2)]
    assert torch.equal(found[0][1].columns, found[1][1].columns)
    assert torch.equal(*(kernel.tuning.log_step_sizes for kernel, _ in found))


def test_scores_and_slopes_are_those_of_where_chains_are():
    kernel = build_kernel("mala", MIXED)
    state, _ = run_chains(kernel, kernel.init(30, generator()), 5, generator(1))
    torch.testing.assert_close(state.scores, MIXED.log_score(state.states))
    s, x, y = state.states.T
    torch.testing.assert_close(state.slopes, torch.stack((s - y, -(1 + x))))


def test_a_learner_may_change_the_model():
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, dtype=torch.float64))
    model = FactorGraph([Variable("x", support=(-1, 1))], [NeuralFactor(["x"], module)])
    kernel = build_kernel("hmc", model)
    state = kernel.init(10, generator())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-3)
    assert torch.equal(kernel.log_score(state), model.log_score(state.states).detach().double())
    state, _ = kernel.step(state, generator())
    assert not state.scores.requires_grad


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_score_is_never_entered(wrong):
    def function(v):
        return torch.where(v[:, 0] > 1, wrong, -0.5 * v[:, 0] ** 2)

    model, one = model_of(function), torch.ones(1).double()
    reference = Reference.normal(model, 0 * one, one)
    kernel = HamiltonianKernel(model, 0.8, reference=reference)
    start = torch.linspace(-2, 1, 200).double()[:, None]
    state, info = run_chains(kernel, kernel.init(200, generator(), start), 20, generator())
    assert float(state.states.max()) <= 1
    assert bool(state.scores.isfinite().all())
    assert 0.3 < info.acceptance < 1


def test_slopes_that_are_no_numbers_are_no_force():
    def function(v):  # at zero and below, the gradient of the square root is not finite
        return -(v[:, 0].abs().sqrt())

    kernel = HamiltonianKernel(model_of(function), 0.5, torch.ones(1).double())
    state = kernel.init(100, generator(), torch.zeros(100, 1).double())
    state, _ = run_chains(kernel, state, 10, generator())
    assert bool(state.states.isfinite().all())
    assert bool((state.states != 0).any())


def test_impossible_starts_find_their_way():
    def function(v):
        return torch.where((v[:, 0] - 3).abs() < 1, 0.0, -math.inf).double()

    kernel = HamiltonianKernel(model_of(function, (-10, 10)), 0.5, torch.ones(1).double())
    state = kernel.init(100, generator(), torch.full((100, 1), -5.0).double())
    state, _ = run_chains(kernel, state, 500, generator())
    assert bool(((state.states - 3).abs() < 1).all())


def test_forces_beyond_all_numbers_lose_nobody():
    kernel = HamiltonianKernel(
        model_of(lambda v: -1e300 * v[:, 0] ** 4), 1.0, torch.ones(1).double()
    )
    state = kernel.init(50, generator(), torch.full((50, 1), 3.0).double())
    state, info = run_chains(kernel, state, 5, generator())
    assert torch.equal(state.states, torch.full((50, 1), 3.0).double())
    assert info.acceptance == 0


def test_nothing_to_follow_is_uniform():
    kernel = HamiltonianKernel(FactorGraph([Variable("x", support=(0, 1))]), 0.3)
    state, info = run_chains(kernel, kernel.init(4000, generator()), 5, generator())
    assert info.acceptance == 1
    assert torch.histc(state.states, 4, 0, 1).div(4000).sub(0.25).abs().max() < 0.04


def test_single_precision():
    kernel, state = adapted(
        HamiltonianKernel(MIXED.to(dtype=torch.float32)), 30, generator(), num_steps=10
    )
    state, _ = kernel.step(state, generator())
    assert state.states.dtype == torch.float32


@pytest.mark.parametrize("momentum", [0.3, -2.7, 51.0])
def test_walls_can_be_walked_back(momentum):
    walls = Walls.of(
        torch.tensor([-1.0, 0.0, -math.inf, -math.inf]).double(),
        torch.tensor([2.0, math.inf, 1.0, math.inf]).double(),
    )
    start = torch.tensor([[0.7], [0.2], [-3.0], [4.0]]).double()
    away = torch.full((4, 1), momentum).double()
    position, there = walls.reflected(start + away, away)
    assert bool(((position >= walls.low) & (position <= walls.high)).all())
    back, again = walls.reflected(position - there, -there)
    torch.testing.assert_close(back, start)
    torch.testing.assert_close(again, -away)


def test_kernels_for_states_refuse_real_models_and_the_other_way_round():
    for name in ("gibbs", "gwg", "tempering"):
        with pytest.raises(ConfigError, match="'x' is real: take HamiltonianKernel") as caught:
            build_kernel(name, MIXED)
        assert "\n" not in str(caught.value)
    for name in ("hmc", "mala"):
        with pytest.raises(ConfigError, match="all have states: take GibbsKernel"):
            build_kernel(name, zoo.sprinkler())
    assert {"hmc", "mala"} <= set(KERNELS)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: HamiltonianKernel(MIXED, 0.0), "above 0"),
        (lambda: HamiltonianKernel(MIXED, math.nan), "above 0"),
        (lambda: HamiltonianKernel(MIXED, 0.1, torch.ones(3)), "2 real variables"),
        (lambda: HamiltonianKernel(MIXED, 0.1, -torch.ones(2)), "2 real variables"),
        (lambda: HamiltonianKernel(MIXED, num_leapfrog=0), "at least one leapfrog"),
        (lambda: HamiltonianKernel(MIXED).init(0, generator()), "at least one chain"),
        (
            lambda: HamiltonianKernel(MIXED).init(1, generator(), torch.tensor([[0.0, 3.0, 1.0]])),
            "from -1 to 1",
        ),
        (
            lambda: HamiltonianKernel(MIXED).init(2, generator(), torch.zeros(1, 3)),
            "as many rows",
        ),
        (
            lambda: HamiltonianKernel(MIXED).step(
                HamiltonianKernel(MIXED).init(2, generator()), generator(), 1.5
            ),
            "at most 1",
        ),
        (
            lambda: HamiltonianKernel(MIXED, torch.ones(3)).step(
                HamiltonianKernel(MIXED).init(2, generator()), generator()
            ),
            "3 lengths of steps and 2 chains",
        ),
        (lambda: adapted(HamiltonianKernel(MIXED), 5, generator(), num_steps=0), "at least one"),
        (lambda: adapted(HamiltonianKernel(MIXED), 5, generator(), acceptance=1.0), "between"),
        (
            lambda: HamiltonianKernel(
                FactorGraph([Variable("x", support="line")], [GaussianFactor("x", 0.0, 1.0)])
            ).step(HamiltonianKernel(MIXED).init(2, generator()), generator()),
            "3 variables",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(call, says):
    with pytest.raises(DeltaAIError, match=says) as caught:
        call()
    assert isinstance(caught.value, ConfigError | StateError)
    assert "\n" not in str(caught.value)
