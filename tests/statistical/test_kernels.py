"""Every MCMC kernel leaves its model's distribution invariant, and a wrong one would be noticed."""

import itertools

import numpy as np
import pytest
import torch

from deltaai.exact import Enumeration
from deltaai.mcmc import gradient_moves, tempering
from deltaai.mcmc.chains import Kernel, StepInfo, run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel, InformedState
from deltaai.mcmc.tempering import ParallelTemperingKernel, annealed_chains
from deltaai.models import zoo
from kernels import KERNELS
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

MODELS = {
    "lattice": zoo.ising_lattice(side=3, sigma=0.3, seed=0),
    "three states": zoo.potts_lattice(side=2, states=3, sigma=0.7, seed=1),
    "mixed, with one state": zoo.random_factor_graph(6, 7, max_arity=3, max_states=4, seed=6),
    "neural": zoo.factor_lattice(side=3, sigma=0.5, seed=0),
    "neural under evidence": zoo.factor_lattice(side=3, sigma=0.7, seed=1).condition(
        {"x_0_2": 1, "x_1_1": 0}
    ),
    "zeros": zoo.random_factor_graph(
        5, 6, max_states=3, zero_fraction=0.2, min_states=2, max_arity=3, seed=4
    ),
    "disconnected": zoo.random_factor_graph(6, 3, max_arity=2, min_states=2, seed=1),
}
NUM_CHAINS = 20_000


def exact_samples(oracle, num_samples, seed):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(
        oracle.probabilities(), num_samples, replacement=True, generator=generator
    )
    return oracle.states[drawn]


def p_value_after(kernel, num_steps, *, beta=1.0, from_exact=True, num_chains=NUM_CHAINS):
    """P-value of chains against enumeration, after steps from exact samples or from random."""
    oracle = Enumeration(kernel.model)
    generator = torch.Generator().manual_seed(7)
    start = exact_samples(oracle, num_chains, seed=1) if from_exact else None
    state = kernel.init(num_chains, generator, start)
    state, _ = run_chains(kernel, state, num_steps, generator, betas=[beta] * num_steps)
    return chi_square_p_value(oracle.states, state.states, oracle.probabilities())


def steps_of(name):
    """A step of the informed kernels changes one variable, one of the others all of them."""
    return 12 if name in ("informed", "gradients") else 3


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_target_is_invariant(name, model):
    kernel = KERNELS[name](MODELS[model])
    assert p_value_after(kernel, steps_of(name)) > FALSE_FAILURE


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_temperature_fails(name):
    """Power: the same check with a target 15 % too flat."""
    kernel = KERNELS[name](MODELS["neural"])
    assert p_value_after(kernel, 2 * steps_of(name), beta=0.85) < FALSE_FAILURE


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("model", ["three states", "zeros"])
def test_random_starts_converge(name, model):
    kernel = KERNELS[name](MODELS[model])
    num_steps = 100 if name in ("informed", "gradients") else 80
    assert p_value_after(kernel, num_steps, from_exact=False, num_chains=5000) > FALSE_FAILURE


class AlwaysAccept(GibbsWithGradientsKernel):
    """A wrong kernel: informed proposals without the Metropolis-Hastings correction."""

    def step(self, state, generator, beta=1.0):
        weights = self._log_weights(state.columns, state.log_ratios, beta)
        move, _ = gradient_moves._draw(weights, generator)
        columns = state.columns.clone()
        chains = torch.arange(state.num_chains)
        columns[self._variable[move], chains] = self._value[move].to(columns.dtype)
        moved = InformedState(columns, self._log_ratios(columns), True)
        return moved, StepInfo(1.0, 0)


def test_proposals_that_are_always_accepted_fail():
    assert p_value_after(AlwaysAccept(MODELS["neural"]), 12) < FALSE_FAILURE


def test_swaps_that_are_always_accepted_fail(monkeypatch):
    right = tempering._swap
    monkeypatch.setattr(
        tempering,
        "_swap",
        lambda replicas, scores, cold, gap, g: right(replicas, scores, cold, 0.0, g),
    )
    kernel = ParallelTemperingKernel(MODELS["neural"], (1.0, 0.5))
    assert p_value_after(kernel, 3) < FALSE_FAILURE


def test_annealed_chains_end_in_the_target():
    model = zoo.ising_lattice(side=3, sigma=0.4, seed=0)
    oracle = Enumeration(model)
    states = annealed_chains(model, NUM_CHAINS, 30, 30, torch.Generator().manual_seed(0))
    assert chi_square_p_value(oracle.states, states, oracle.probabilities()) > FALSE_FAILURE


# -- transition matrices -----------------------------------------------------------------------

SMALL = {
    "binary": zoo.random_factor_graph(4, 5, max_arity=3, max_states=2, min_states=2, seed=0),
    "mixed": zoo.random_factor_graph(3, 4, max_arity=2, max_states=3, min_states=2, seed=2),
    "zeros": zoo.random_factor_graph(
        3, 4, max_states=3, min_states=2, zero_fraction=0.2, max_arity=2, seed=5
    ),
}


def gibbs_matrix(oracle, order):
    """Product of single-variable Gibbs updates, from the listed probabilities alone."""
    probabilities, states = oracle.probabilities().numpy(), oracle.states.numpy()
    total = np.eye(len(states))
    for variable in order:
        others = np.delete(states, variable, axis=1)
        is_reachable = (others[:, None] == others[None]).all(2)
        weights = is_reachable * probabilities[None]
        norm = weights.sum(1, keepdims=True)
        total = total @ np.divide(weights, norm, out=np.zeros_like(weights), where=norm > 0)
    return total


def informed_matrix(oracle):
    """Metropolis-Hastings with proposals in the square root of the ratio, state by state."""
    probabilities, states = oracle.probabilities().numpy(), oracle.states.numpy()
    is_neighbour = (states[:, None] != states[None]).sum(2) == 1
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(is_neighbour, np.sqrt(probabilities[None] / probabilities[:, None]), 0)
        proposal = weights / weights.sum(1, keepdims=True)
        flow = probabilities[:, None] * proposal
        matrix = proposal * np.minimum(1, flow.T / flow)
    matrix = np.nan_to_num(matrix)
    np.fill_diagonal(matrix, 1 - matrix.sum(1))
    return matrix


def row_p_values(kernel, oracle, matrix, per_state=4000):
    """Chi-square of one step from each possible state against its row of a matrix."""
    possible = (oracle.probabilities() > 0).nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(3)
    start = oracle.states[possible].repeat_interleave(per_state, 0)
    state, _ = kernel.step(kernel.init(len(start), generator, start), generator)
    ends = state.states.split(per_state)
    return [
        chi_square_p_value(oracle.states, end, matrix[row])
        for row, end in zip(possible.tolist(), ends, strict=True)
    ]


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("name", ["gibbs", "gibbs, no tables"])
def test_gibbs_makes_the_transitions_it_should(name, model):
    oracle = Enumeration(SMALL[model])
    kernel = KERNELS[name](SMALL[model])
    order = [v for blocks in kernel._classes for block in blocks for v in block.members.tolist()]
    matrix = gibbs_matrix(oracle, order)
    balanced = oracle.probabilities().numpy()
    np.testing.assert_allclose(balanced @ matrix, balanced, atol=1e-12)
    p_values = row_p_values(kernel, oracle, matrix)
    assert min(p_values) > FALSE_FAILURE / len(p_values)


def test_random_scan_makes_the_transitions_it_should():
    model = SMALL["mixed"]
    oracle, kernel = Enumeration(model), GibbsKernel(model, "random")
    classes = [[v for b in blocks for v in b.members.tolist()] for blocks in kernel._classes]
    visits = list(itertools.product(classes, repeat=len(classes)))
    orders = [list(itertools.chain(*visit)) for visit in visits]
    matrix = np.mean([gibbs_matrix(oracle, order) for order in orders], axis=0)
    # All chains of a step share the visits, so it takes many steps of one chain.
    generator = torch.Generator().manual_seed(5)
    first = kernel.init(1, generator, oracle.states[:1])
    ends = torch.cat([kernel.step(first, generator)[0].states for _ in range(1500)])
    assert chi_square_p_value(oracle.states, ends, matrix[0]) > FALSE_FAILURE


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("name", ["informed", "gradients"])
def test_informed_moves_make_the_transitions_they_should(name, model):
    oracle = Enumeration(SMALL[model])
    matrix = informed_matrix(oracle)
    flow = oracle.probabilities().numpy()[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-12)  # detailed balance
    p_values = row_p_values(KERNELS[name](SMALL[model]), oracle, matrix)
    assert min(p_values) > FALSE_FAILURE / len(p_values)


def test_every_kernel_is_a_kernel():
    model = SMALL["binary"]
    assert all(isinstance(make(model), Kernel) for make in KERNELS.values())
