"""Locally informed moves: estimates against differences, and where they may start."""

import pytest
import torch

from deltaai.errors import StateError
from deltaai.mcmc.chains import run_chains
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.taylor_ratios import taylor_log_ratios
from deltaai.models import zoo
from deltaai.models.neural_group import network_inputs

ZEROS = zoo.random_factor_graph(8, 10, max_states=3, zero_fraction=0.3, min_states=2, seed=4)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "model",
    [
        zoo.ising_lattice(side=4, sigma=0.5, seed=0),
        zoo.potts_lattice(side=3, states=4, sigma=0.5, seed=0),
        zoo.random_factor_graph(8, 10, max_arity=4, max_states=4, seed=2),
    ],
    ids=["spins", "four states", "tables"],
)
def test_the_expansion_is_exact_for_spins_and_tables(model):
    state = GibbsWithGradientsKernel(model).init(20, seeded())
    torch.testing.assert_close(taylor_log_ratios(model, state.columns), state.log_ratios)


def test_the_expansion_of_a_network_is_its_gradient():
    model = zoo.factor_lattice(side=3, sigma=0.8, seed=0)
    group = model.groups[0]
    state = GibbsWithGradientsKernel(model, is_exact=False).init(5, seeded())
    spins = (2.0 * state.states.double() - 1).requires_grad_()
    features = torch.stack([spins[:, scope] for scope in group.scopes.tolist()])
    torch.testing.assert_close(
        features.detach(),
        network_inputs(group.scope_values(state.columns), group.sizes, group.dtype),
    )
    score = group.log_values_encoded(group.network_of, features).sum()
    (slope,) = torch.autograd.grad(score, spins)
    flipped = (1 - state.states) + model.state_offsets[:-1]
    estimate = state.log_ratios.T.gather(1, flipped)
    torch.testing.assert_close(estimate, -2 * slope * spins.detach())
    true = model.log_ratios(state.states).gather(1, flipped)
    assert float((estimate - true).abs().max()) > 0.1  # an estimate, not the difference


def test_true_differences_are_accepted_more_often():
    model = zoo.factor_lattice(side=4, sigma=1.0, seed=0)
    rates = []
    for is_exact in (True, False):
        kernel, generator = GibbsWithGradientsKernel(model, is_exact), seeded()
        _, info = run_chains(kernel, kernel.init(300, generator), 30, generator)
        rates.append(info.acceptance)
    assert rates[0] > rates[1]
    assert rates[0] > 0.7


@pytest.mark.parametrize("is_exact", [True, False])
def test_kept_ratios_are_those_of_the_state(is_exact):
    model = zoo.factor_lattice(side=3, sigma=0.8, seed=0)
    kernel, generator = GibbsWithGradientsKernel(model, is_exact), seeded()
    state, _ = run_chains(kernel, kernel.init(50, generator), 20, generator)
    fresh = kernel.init(50, generator, state.states)
    torch.testing.assert_close(state.log_ratios, fresh.log_ratios)


@pytest.mark.parametrize("is_exact", [True, False])
def test_models_with_zeros_are_never_left_or_undefined(is_exact):
    kernel, generator = GibbsWithGradientsKernel(ZEROS, is_exact), seeded()
    state = kernel.init(100, generator)
    for _ in range(50):
        state, info = kernel.step(state, generator)
        assert not bool(state.log_ratios.isnan().any())
        assert bool((ZEROS.log_score(state.states) > -torch.inf).all())
    assert info.num_updates == 100


def test_impossible_starts_are_refused():
    states = torch.cartesian_prod(*(torch.arange(n) for n in ZEROS.num_states.tolist()))
    impossible = states[ZEROS.log_score(states) == -torch.inf][:1]
    with pytest.raises(StateError, match="probability zero"):
        GibbsWithGradientsKernel(ZEROS).init(1, seeded(), impossible)
