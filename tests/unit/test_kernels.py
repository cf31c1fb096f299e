"""What all MCMC kernels share: starts, steps as values, repeatability, edge cases, errors."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from deltaai.errors import ConfigError, DeltaAIError, StateError
from deltaai.mcmc.chains import ChainState, run_chains, tempered
from deltaai.models import FactorGraph, SpinField, TableFactor, Variable, zoo
from kernels import KERNELS

LATTICE = zoo.ising_lattice(side=3, sigma=0.3, seed=0)
MIXED = zoo.random_factor_graph(6, 7, max_arity=3, max_states=4, seed=6)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=KERNELS)
def make(request):
    return KERNELS[request.param]


@pytest.mark.parametrize("model", [LATTICE, MIXED], ids=["lattice", "mixed"])
def test_random_starts_are_uniform_states_of_the_model(make, model):
    state = make(model).init(2000, seeded())
    assert state.num_chains == 2000
    model.check_states(state.states)
    mean = state.states.double().mean(0)
    wanted = (model.num_states - 1) / 2
    deviation = ((model.num_states.double() ** 2 - 1) / 12).sqrt()
    assert bool(((mean - wanted).abs() <= 5 * deviation / 2000**0.5).all())


def test_given_states_are_kept(make):
    states = torch.randint(2, (7, 9), generator=seeded())
    assert torch.equal(make(LATTICE).init(7, seeded(), states).states, states)


def test_a_step_repeats_with_the_generator(make):
    kernel = make(MIXED)
    state = kernel.init(50, seeded())
    first, info = run_chains(kernel, state, 5, seeded(1))
    again, same = run_chains(make(MIXED), state, 5, seeded(1))
    other, _ = run_chains(kernel, state, 5, seeded(2))
    assert torch.equal(first.columns, again.columns)
    assert info == same
    assert not torch.equal(first.columns, other.columns)


def test_a_run_is_taken_up_again_from_its_state(make):
    kernel = make(LATTICE)
    generator = seeded()
    middle, _ = run_chains(kernel, kernel.init(20, generator), 3, generator)
    kept = generator.get_state()
    end, _ = run_chains(kernel, middle, 3, generator)
    resumed, _ = run_chains(make(LATTICE), middle, 3, seeded(99).set_state(kept))
    assert torch.equal(end.columns, resumed.columns)


def test_a_step_leaves_the_old_state_as_it_was(make):
    kernel = make(LATTICE)
    generator = seeded()
    state = kernel.init(30, generator)
    before = deepcopy(vars(state))
    kernel.step(state, generator)
    kernel.step(state, generator)
    torch.testing.assert_close(vars(state), before, atol=0, rtol=0)


def test_one_variable(make):
    model = FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, -torch.inf, 1.0])])
    kernel, generator = make(model), seeded()
    state, _ = run_chains(kernel, kernel.init(4000, generator), 30, generator)
    shares = torch.bincount(state.states[:, 0], minlength=3) / 4000
    wanted = torch.softmax(torch.tensor([0.0, -torch.inf, 1.0]), 0)
    assert shares[1] == 0
    torch.testing.assert_close(shares, wanted, atol=0.04, rtol=0)


def test_no_factors(make):
    model = FactorGraph([Variable("a", 2), Variable("b", 3)])
    kernel, generator = make(model), seeded()
    state, _ = run_chains(kernel, kernel.init(4000, generator), 20, generator)
    shares = torch.bincount(3 * state.states[:, 0] + state.states[:, 1], minlength=6) / 4000
    torch.testing.assert_close(shares, torch.full((6,), 1 / 6), atol=0.03, rtol=0)


@pytest.mark.parametrize("variables", [[], [Variable("a", 1), Variable("b", 1)]])
def test_nothing_to_change(make, variables):
    kernel, generator = make(FactorGraph(variables)), seeded()
    state, _ = kernel.step(kernel.init(3, generator), generator)
    assert state.states.tolist() == [[0] * len(variables)] * 3


def test_a_variable_with_very_many_states(make):
    model = FactorGraph(
        [Variable("a", 300), Variable("b", 2)],
        [TableFactor(["a", "b"], torch.randn(300, 2, generator=seeded())), SpinField("b", 0.1)],
    )
    kernel, generator = make(model), seeded()
    state, _ = run_chains(kernel, kernel.init(200, generator), 3, generator)
    model.check_states(state.states)
    assert int(state.states.max()) > 127


def test_a_single_possible_state_is_kept(make):
    """All moves lead to impossible states: chains stay, and nothing is NaN."""
    table = torch.full((2, 2, 2), -torch.inf)
    table[1, 0, 1] = table[0, 1, 0] = 0.5
    names = ["a", "b", "c"]
    model = FactorGraph([Variable(name, 2) for name in names], [TableFactor(names, table)])
    kernel, generator = make(model), seeded()
    start = torch.tensor([[1, 0, 1]]).expand(5, 3)
    for beta in (1.0, 0.3, 0):
        state, info = kernel.step(kernel.init(5, generator, start), generator, beta)
        assert torch.equal(state.states, start)
        assert 0 <= info.acceptance <= 1


def test_beta_zero_is_uniform_over_possible_states(make):
    table = torch.tensor([[3.0, -2.0], [-torch.inf, 1.0]])
    names = ["a", "b"]
    model = FactorGraph([Variable(name, 2) for name in names], [TableFactor(names, table)])
    kernel, generator = make(model), seeded()
    state = kernel.init(6000, generator)
    state, _ = run_chains(kernel, state, 40, generator, betas=[0] * 40)
    shares = torch.bincount(2 * state.states[:, 0] + state.states[:, 1], minlength=4) / 6000
    wanted = torch.tensor([1 / 3, 1 / 3, 0, 1 / 3])
    torch.testing.assert_close(shares, wanted, atol=0.03, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_models_in_either_precision(make, dtype):
    kernel, generator = make(MIXED.to(dtype=dtype)), seeded()
    state, _ = run_chains(kernel, kernel.init(10, generator), 3, generator)
    MIXED.check_states(state.states)


def test_a_model_that_learns_is_followed(make):
    """A field that is turned round between two steps pulls the other way."""
    model = FactorGraph([Variable("a", 2), Variable("b", 2)], [SpinField("a", 8.0)])
    model.groups[0].strengths.requires_grad_()
    kernel, generator = make(model), seeded()
    state, _ = run_chains(kernel, kernel.init(50, generator), 8, generator)
    assert state.states[:, 0].tolist() == [1] * 50
    with torch.no_grad():
        model.groups[0].strengths.neg_()
    state, _ = run_chains(kernel, state, 8, generator)
    assert state.states[:, 0].tolist() == [0] * 50
    with torch.no_grad():  # changed once more and then frozen, before the next step
        model.groups[0].strengths.neg_()
    model.groups[0].strengths.requires_grad_(False)
    state, _ = run_chains(kernel, state, 8, generator)
    assert state.states[:, 0].tolist() == [1] * 50


# -- running, and errors -----------------------------------------------------------------------


def test_runs_count_and_report(make):
    kernel, generator, seen = make(LATTICE), seeded(), []
    state = kernel.init(4, generator)
    _, one = kernel.step(state, generator)
    _, info = run_chains(
        kernel, state, 3, generator, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert info.num_updates == 3 * one.num_updates
    assert 0 <= info.acceptance <= 1
    same, nothing = run_chains(kernel, state, 0, generator)
    assert same is state
    assert nothing.num_updates == 0


def test_bad_starts_are_refused(make):
    kernel = make(LATTICE)
    for count in (0, -1):
        with pytest.raises(StateError, match="at least one chain"):
            kernel.init(count, seeded())
    with pytest.raises(StateError, match="as many rows"):
        kernel.init(3, seeded(), torch.zeros(2, 9, dtype=torch.long))
    with pytest.raises(StateError, match="shape"):
        kernel.init(2, seeded(), torch.zeros(2, 8, dtype=torch.long))
    with pytest.raises(StateError, match="states are 0 to 1"):
        kernel.init(1, seeded(), torch.full((1, 9), 2))


def test_bad_steps_are_refused(make):
    kernel = make(LATTICE)
    state = kernel.init(2, seeded())
    for beta in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="beta"):
            kernel.step(state, seeded(), beta)
    with pytest.raises(StateError, match="variables"):
        make(MIXED).step(kernel.init(2, seeded()), seeded())
    wide = replace(state, columns=state.columns.long())
    with pytest.raises(StateError, match=r"int64.*init"):
        kernel.step(wide, seeded())
    with pytest.raises(ConfigError, match="as many betas"):
        run_chains(kernel, state, 2, seeded(), betas=[1.0])
    with pytest.raises(ConfigError, match="number of steps"):
        run_chains(kernel, state, -1, seeded())


def test_every_error_is_ours():
    assert issubclass(StateError, DeltaAIError)
    assert issubclass(ConfigError, DeltaAIError)


def test_states_are_rows_of_long_integers():
    state = ChainState(torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=torch.int8))
    assert state.states.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert state.states.dtype == torch.long


def test_tempered_keeps_its_argument():
    values = torch.tensor([1.0, -torch.inf])
    assert tempered(values, 0.5).tolist() == [0.5, -torch.inf]
    assert values.tolist() == [1.0, -torch.inf]
