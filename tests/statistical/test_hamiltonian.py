"""Hamiltonian chains leave densities invariant that are known in closed form; wrong ones do not."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deltaai.mcmc import HamiltonianKernel, Reference, adapted, langevin, run_chains
from deltaai.mcmc.walls import Walls
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
from statistical.chi_square import FALSE_FAILURE

NUM_CHAINS = 20_000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def units(*pairs):
    centre, unit = zip(*pairs, strict=True)
    return torch.tensor(centre).double(), torch.tensor(unit).double()


def line(*names):
    return [Variable(name, support="line") for name in names]


COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])
NORMAL = FactorGraph(line("x", "y"), [GaussianFactor(["x", "y"], [1.0, -2.0], COVARIANCE)])
BANANA = FactorGraph(
    line("x", "y"),
    [FunctionFactor(["x", "y"], lambda v: -0.5 * v[:, 0] ** 2 - 2 * (v[:, 1] - v[:, 0] ** 2) ** 2)],
)
# Cut off where they are high: a box, a half-line that goes up and one that goes down.
CUT = FactorGraph(
    [
        Variable("b", support=(-1, 2)),
        Variable("u", support=(0.5, None)),
        Variable("d", support=(None, 1)),
    ],
    [
        QuadraticFactor("b", 1.0, [1.5]),
        QuadraticFactor("u", 2.0, [-1.0]),
        QuadraticFactor("d", 0.5, [2.0]),
    ],
)
MIXED = FactorGraph(
    [Variable("s", 3), Variable("x", support="line"), Variable("t", 2)],
    [
        TableFactor(["s", "t"], [[0.2, -0.5], [0.0, 0.7], [-0.3, 0.1]]),
        LinearGaussian("x", given=["s"], bias=[-1.0, 0.5, 2.0], scale=[0.5, 1.0, 0.7]),
        FunctionFactor(["x", "t"], lambda v: -0.3 * (v[:, 0] - v[:, 1]) ** 2),
    ],
)


def exact_normal(count, seed):
    return np.random.default_rng(seed).multivariate_normal([1.0, -2.0], COVARIANCE, size=count)


def exact_banana(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    return np.stack((x, x**2 + 0.5 * rng.normal(size=count)), 1)


def truncated():
    """The marginals of CUT: exp(hx - Px²/2) is a normal density of mean h/P, cut off."""

    def cut(precision, shift, low, high):
        mean, sd = shift / precision, precision**-0.5
        return stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)

    infinity = math.inf
    return [cut(1.0, 1.5, -1, 2), cut(2.0, -1.0, 0.5, infinity), cut(0.5, 2.0, -infinity, 1)]


def exact_cut(count, seed):
    rng = np.random.default_rng(seed)
    return np.stack([one.rvs(count, random_state=rng) for one in truncated()], 1)


def smallest_p_value(states, cumulative):
    """Kolmogorov and Smirnov, for values that are independent and uniform if all is right."""
    values = cumulative(states.numpy())
    return min(
        stats.kstest(values[:, column], "uniform").pvalue for column in range(values.shape[1])
    )


def whitened_normal(x):
    chol = np.linalg.cholesky(COVARIANCE)
    return stats.norm.cdf(np.linalg.solve(chol, (x - [1.0, -2.0]).T).T)


def whitened_banana(x):
    return stats.norm.cdf(np.stack((x[:, 0], 2 * (x[:, 1] - x[:, 0] ** 2)), 1))


def whitened_cut(x):
    return np.stack([one.cdf(x[:, column]) for column, one in enumerate(truncated())], 1)


CASES = {
    "normal": (NORMAL, exact_normal, whitened_normal),
    "banana": (BANANA, exact_banana, whitened_banana),
    "cut": (CUT, exact_cut, whitened_cut),
}


def p_value(kernel, case, num_steps=6, seed=0):
    _, exact, whitened = CASES[case]
    randomness = generator(seed)
    start = torch.from_numpy(exact(NUM_CHAINS, seed))
    state = kernel.init(NUM_CHAINS, randomness, start)
    state, info = run_chains(kernel, state, num_steps, randomness)
    assert 0.2 < info.acceptance < 0.999
    assert not bool((state.states == start).all(0).any())
    return smallest_p_value(state.states, whitened)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("num_leapfrog", [1, 5])
def test_the_target_is_invariant(case, num_leapfrog):
    model = CASES[case][0]
    length = 0.7 if case == "cut" else 0.35
    scales = torch.ones(model.num_variables).double() * torch.linspace(
        0.8, 1.2, model.num_variables
    )
    kernel = HamiltonianKernel(model, length, scales, num_leapfrog=num_leapfrog)
    assert p_value(kernel, case) > FALSE_FAILURE


def test_a_length_for_each_chain():
    lengths = torch.linspace(0.1, 1.0, NUM_CHAINS).double()
    scales = torch.ones(2).double()
    assert p_value(HamiltonianKernel(NORMAL, lengths, scales), "normal") > FALSE_FAILURE


class NotTurned(Walls):
    """Wrong walls: positions come back, momenta go on."""

    @staticmethod
    def _turned(momentum, is_turned):
        return momentum


def test_walls_that_do_not_turn_momenta_are_noticed():
    kernel = HamiltonianKernel(CUT, 0.1, torch.ones(3).double(), num_leapfrog=5)
    kernel._walls = NotTurned.of(kernel.reference.low, kernel.reference.high)
    assert p_value(kernel, "cut", num_steps=20) < FALSE_FAILURE


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_temperature_is_noticed(case):
    _, exact, whitened = CASES[case]
    kernel = HamiltonianKernel(CASES[case][0], 0.5, num_leapfrog=5)
    randomness = generator()
    state = kernel.init(NUM_CHAINS, randomness, torch.from_numpy(exact(NUM_CHAINS, 0)))
    state, _ = run_chains(kernel, state, 6, randomness, betas=[0.6] * 6)
    assert smallest_p_value(state.states, whitened) < FALSE_FAILURE


def test_proposals_that_are_always_accepted_are_noticed(monkeypatch):
    kernel = HamiltonianKernel(NORMAL, 0.9, torch.ones(2).double(), num_leapfrog=5)
    monkeypatch.setattr(kernel, "_log_target", lambda state, beta: torch.zeros_like(state.scores))
    randomness = generator()
    state = kernel.init(NUM_CHAINS, randomness, torch.from_numpy(exact_normal(NUM_CHAINS, 0)))
    state, _ = run_chains(kernel, state, 6, randomness)
    assert smallest_p_value(state.states, whitened_normal) < FALSE_FAILURE


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.8])
def test_the_path_from_the_reference(beta):
    """Between two normal densities precisions and shifts are mixed."""
    kernel = HamiltonianKernel(
        FactorGraph(line("x"), [GaussianFactor("x", 2.0, 0.25)]),
        0.5,
        reference=Reference.normal(
            FactorGraph(line("x"), [GaussianFactor("x", 2.0, 0.25)]), *units((-1.0, 3.0))
        ),
    )
    precision = (1 - beta) / 9 + beta * 4
    mean = ((1 - beta) * -1.0 / 9 + beta * 8.0) / precision
    exact = stats.norm(mean, precision**-0.5)
    start = torch.from_numpy(exact.rvs((NUM_CHAINS, 1), random_state=0))
    state = kernel.init(NUM_CHAINS, generator(), start)
    state, _ = run_chains(kernel, state, 5, generator(1), betas=[beta] * 5)
    assert smallest_p_value(state.states, exact.cdf) > FALSE_FAILURE
    shifted = stats.norm(mean + 0.06 * precision**-0.5, precision**-0.5)
    assert smallest_p_value(state.states, shifted.cdf) < FALSE_FAILURE


def test_starts_are_draws_of_the_reference():
    reference = Reference.normal(CUT, *units((0.0, 1.0), (0.5, 2.0), (0.0, 0.5)))
    drawn = reference.draw(NUM_CHAINS, generator())
    exact = [
        stats.uniform(-1, 3),
        stats.halfnorm(0.5, 2.0),
        stats.truncnorm(-math.inf, 2.0, 0.0, 0.5),
    ]
    p_values = [
        stats.kstest(row.numpy(), one.cdf).pvalue for row, one in zip(drawn, exact, strict=True)
    ]
    assert min(p_values) > FALSE_FAILURE
    wanted = sum(one.logpdf(row.numpy()) for row, one in zip(drawn, exact, strict=True))
    np.testing.assert_allclose(reference.log_density(drawn).numpy(), wanted)


# -- mixed -------------------------------------------------------------------------------------

GRID = torch.linspace(-8, 8, 4001).double()


def table_of_mixed(beta=1.0):
    """Unnormalised densities for each joint state, along a grid: by quadrature."""
    rows = []
    for s in range(3):
        for t in range(2):
            x = torch.stack((torch.full_like(GRID, s), GRID, torch.full_like(GRID, t)), 1)
            rows.append((beta * MIXED.log_score(x)).exp())
    return torch.stack(rows)


def exact_mixed(count, seed):
    table = table_of_mixed().flatten()
    chosen = torch.multinomial(table, count, replacement=True, generator=generator(seed))
    joint, place = chosen // len(GRID), chosen % len(GRID)
    jitter = (torch.rand(count, generator=generator(seed + 1)).double() - 0.5) * (GRID[1] - GRID[0])
    return torch.stack(((joint // 2).double(), GRID[place] + jitter, (joint % 2).double()), 1)


def p_value_of_mixed(states, beta=1.0):
    """Chi-square over joint states and bins of x."""
    table = table_of_mixed(beta).numpy()
    table /= table.sum()
    edges = np.array([-9, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 9])
    joint = (2 * states[:, 0] + states[:, 2]).numpy().astype(int)
    wanted = np.stack([np.histogram(GRID.numpy(), edges, weights=row)[0] for row in table])
    found = np.stack([np.histogram(states[joint == j, 1].numpy(), edges)[0] for j in range(6)])
    expected = wanted * len(states)
    keep = expected > 5
    statistic = ((found - expected)[keep] ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


def test_mixed_models_are_invariant_and_wrong_ones_noticed():
    kernel = HamiltonianKernel(MIXED, 0.4, num_leapfrog=4)
    start = exact_mixed(NUM_CHAINS, 0)
    assert p_value_of_mixed(start) > FALSE_FAILURE
    state = kernel.init(NUM_CHAINS, generator(), start)
    right, info = run_chains(kernel, state, 5, generator(1))
    assert info.num_updates == 5 * 3 * NUM_CHAINS
    assert p_value_of_mixed(right.states) > FALSE_FAILURE
    MIXED.check_states(right.states)
    wrong, _ = run_chains(kernel, state, 5, generator(1), betas=[0.8] * 5)
    assert p_value_of_mixed(wrong.states) < FALSE_FAILURE


def test_mixed_chains_converge_from_anywhere():
    kernel, state = adapted(HamiltonianKernel(MIXED), 5000, generator())
    state, _ = run_chains(kernel, state, 30, generator(1))
    assert p_value_of_mixed(state.states) > FALSE_FAILURE


@pytest.mark.parametrize("make", [HamiltonianKernel, langevin])
def test_warm_up_reaches_the_acceptance_that_is_best(make):
    """Scales that differ a thousandfold, from steps that are far too long or too short."""
    model = FactorGraph(
        line("x", "y"), [GaussianFactor("x", 5.0, 1e-4), GaussianFactor("y", -3.0, 100.0)]
    )
    wide = Reference.normal(model, *units((0.0, 10.0), (0.0, 10.0)))
    for length in (1e-3, 50.0):
        kernel = make(model, length)
        kernel.reference = wide
        kernel, state = adapted(kernel, 500, generator(), num_steps=300)
        state, info = run_chains(kernel, state, 50, generator(1))
        wanted = 0.8 if kernel.num_leapfrog > 1 else 0.6
        assert abs(info.acceptance - wanted) < 0.12
        assert float(state.states[:, 0].std()) == pytest.approx(0.01, rel=0.15)
        if kernel.num_leapfrog > 1:
            assert float(state.states[:, 1].std()) == pytest.approx(10.0, rel=0.15)


def test_scales_heed_modes_and_not_how_far_they_are_apart():
    parts = [GaussianFactor("x", -50.0, 1.0), GaussianFactor("x", 50.0, 1.0)]
    model = FactorGraph(line("x"), [MixtureFactor(parts)])
    start = torch.tensor([[-50.0], [50.0]]).double().repeat(200, 1)
    kernel = HamiltonianKernel(model)
    kernel, _ = adapted(kernel, kernel.init(400, generator(), start), generator())
    assert float(kernel.tuning.at(1.0)[1]) == pytest.approx(1.0, rel=0.2)


def test_a_mixed_reference_is_a_density_whose_slopes_and_draws_agree():
    box = FactorGraph([Variable("b", support=(-1, 2)), Variable("u", support=(0.5, None))])
    wide = Reference.normal(box, *units((0.5, 1.0), (0.5, 2.0)))
    centre, unit = torch.tensor([[1.9, 0.6], [-0.5, 3.0]]), torch.tensor([[0.3, 0.1], [0.2, 1.0]])
    reference = wide.mixed(0.6, centre.double(), unit.double())
    b, u = torch.linspace(-1, 2, 601).double(), torch.linspace(0.5, 20, 2001).double()
    grid = torch.cartesian_prod(b, u)
    density = reference.log_density(grid.T).exp().view(601, 2001)
    over_u = torch.trapezoid(density, u, dim=1)
    assert float(torch.trapezoid(over_u, b)) == pytest.approx(1.0, abs=2e-3)
    drawn = reference.draw(NUM_CHAINS, generator())
    cumulative = np.concatenate(([0.0], np.cumsum(over_u.numpy()[:-1] * 0.005)))
    found = stats.kstest(drawn[0].numpy(), lambda x: np.interp(x, b.numpy(), cumulative)).pvalue
    assert found > FALSE_FAILURE
    at = drawn[:, :50].clone().requires_grad_(True)
    (wanted,) = torch.autograd.grad(reference.log_density(at).sum(), at)
    torch.testing.assert_close(reference.slopes(drawn[:, :50]), wanted)
