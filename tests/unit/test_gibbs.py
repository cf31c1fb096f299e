"""Gibbs sampling: tables against factors, exact thresholds, scans, and impossible starts."""

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.exact import exact
from deltaai.graphs.colouring import greedy_colouring
from deltaai.mcmc import gibbs, local_scores, table_updates
from deltaai.mcmc.chains import run_chains
from deltaai.mcmc.conditional_tables import LARGEST_BLANKET, Blankets, tabulate
from deltaai.mcmc.gibbs import MOST_TEMPERATURES, GibbsKernel
from deltaai.mcmc.local_scores import LocalScores
from deltaai.mcmc.table_updates import Scratch, TableBlock, Thresholds
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable, zoo

MODELS = {
    "lattice": zoo.ising_lattice(side=5, sigma=0.7, seed=0),
    "ladder": zoo.ising_ladder(20, 0.3, 1),
    "three states": zoo.potts_lattice(side=4, states=3, sigma=0.7, seed=1),
    "mixed": zoo.random_factor_graph(12, 14, max_arity=3, max_states=5, seed=3),
    "neural": zoo.factor_lattice(side=5, sigma=0.7, seed=0),
    "neural under evidence": zoo.factor_lattice(side=4, sigma=0.7, seed=0).condition({"x_1_1": 1}),
    "zeros": zoo.random_factor_graph(12, 14, max_states=3, zero_fraction=0.3, seed=4),
    "network": zoo.sprinkler(),
    "hub": FactorGraph(  # 2^10 joint states of neighbours: an index that no byte holds
        [Variable(str(v), 2) for v in range(12)],
        [SpinCoupling("0", str(v), 0.1 * v) for v in range(1, 11)]
        + [SpinCoupling("10", "11", 1.0)],
    ),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def blocks_of(model):
    """Members with one number of states, colour by colour, in falling order of degrees."""
    graph = model.markov_graph()
    for colour in greedy_colouring(graph):
        for count in torch.unique(model.num_states[list(colour)]).tolist():
            members = [v for v in colour if model.num_states[v] == count]
            members.sort(key=lambda v: -graph.degree(v))
            yield torch.tensor(members), count


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_tables_factors_and_the_model_agree_on_every_conditional(name, beta):
    model = MODELS[name]
    blankets = Blankets.of(model, model.markov_graph())
    states = torch.cat(
        (GibbsKernel(model).init(40, seeded()).states, GibbsKernel(model).init(1, seeded(1)).states)
    )
    columns = model.columns(states)
    row_of = torch.arange(model.num_variables)
    wanted = model.local_log_scores(states)
    num_tabulated = 0
    for members, count in blocks_of(model):
        if count == 1:
            continue
        direct = LocalScores.build(model, members, row_of).log_scores(columns)
        by_factors = torch.softmax(beta * direct.double(), 1)
        for position, member in enumerate(members.tolist()):
            start = int(model.state_offsets[member])
            local = torch.softmax(beta * wanted[:, start : start + count], 1)
            is_possible = ~local.isnan().any(1)  # elsewhere every choice breaks a factor
            torch.testing.assert_close(by_factors[position].T[is_possible], local[is_possible])
        is_small = blankets.num_joint[members.numpy()] <= 1024
        tabulated = members[torch.from_numpy(is_small)]
        if len(tabulated) == 0:
            continue
        num_tabulated += len(tabulated)
        block = TableBlock.build(blankets, tabulated, row_of)
        entries = block._entries(columns.view(torch.uint8), 0, len(tabulated), Scratch())
        thresholds = Thresholds.of(tabulate(model, blankets, tabulated), beta)
        cumulative = (thresholds.leading.double() + thresholds.rest)[:, entries.long()] / 256
        by_table = torch.cat((cumulative, torch.ones_like(cumulative[:1]))).diff(
            dim=0, prepend=torch.zeros_like(cumulative[:1])
        )
        chosen = by_factors[torch.from_numpy(is_small)]
        torch.testing.assert_close(by_table.movedim(0, 1), chosen, atol=1e-12, rtol=0)
    assert num_tabulated > 0


def test_thresholds_hold_probabilities_zero_and_one_exactly():
    scores = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0], [0.0, 0.0], [-800.0, 0.0]])
    thresholds = Thresholds.of(scores, 1.0)
    assert thresholds.leading.tolist() == [[255, 0, 128, 0]]
    assert thresholds.rest.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    # Three equal states of five: rounding of the sum must not reach the two impossible ones.
    three = Thresholds.of(torch.tensor([[0.0, 0.0, 0.0, -torch.inf, -torch.inf]]), 1.0)
    assert three.leading[2:].flatten().tolist() == [255, 255]
    assert three.rest[2:].flatten().tolist() == [1.0, 1.0]


def test_draws_have_probabilities_finer_than_a_byte():
    """Ties are broken by the rest of the number: 1/3 is no multiple of 1/256."""
    probability = torch.tensor([1 / 3, 1 / 512, 1 - 1 / 512, 1.0])
    scores = torch.stack((probability.log(), (1 - probability).log()), 1).double()
    model = FactorGraph(
        [Variable(str(v), 2) for v in range(4)],
        [TableFactor([str(v)], row) for v, row in enumerate(scores)],
    )
    kernel, generator = GibbsKernel(model), seeded()
    count = 1_000_003  # no whole number of words
    state, _ = kernel.step(kernel.init(count, generator), generator)
    zeros = (state.columns == 0).sum(1)
    deviation = (probability * (1 - probability) * count).sqrt()
    assert bool(((zeros - probability * count).abs() <= 4 * deviation).all())


def test_pieces_change_nothing_but_the_random_numbers(monkeypatch):
    """Members are updated in pieces; each must read the tables of its own members."""
    model = MODELS["mixed"]
    generator = seeded()
    kernel = GibbsKernel(model)
    state = kernel.init(20_000, generator)
    whole = run_chains(kernel, state, 5, seeded(1))[0].states.double()
    monkeypatch.setattr(table_updates, "PIECE_UPDATES", 5000)
    monkeypatch.setattr(local_scores, "BLOCK_ENTRIES", 5000)
    pieces = run_chains(GibbsKernel(model), state, 5, seeded(1))[0].states.double()
    deviation = (whole.var(0) + pieces.var(0)).div(20_000).sqrt()
    assert bool(((whole.mean(0) - pieces.mean(0)).abs() <= 4.5 * deviation + 1e-12).all())


def test_tables_made_in_pieces_are_the_same(monkeypatch):
    model = MODELS["neural"]
    blankets = Blankets.of(model, model.markov_graph())
    members = next(members for members, _ in blocks_of(model))
    whole = tabulate(model, blankets, members)
    from deltaai.mcmc import conditional_tables

    monkeypatch.setattr(conditional_tables, "BLOCK_ENTRIES", 600)
    torch.testing.assert_close(tabulate(model, blankets, members), whole)


def test_a_step_updates_every_variable_once():
    model = MODELS["lattice"]
    for scan in ("systematic", "random"):
        kernel, generator = GibbsKernel(model, scan), seeded()
        _, info = kernel.step(kernel.init(10, generator), generator)
        assert info.acceptance == 1
        if scan == "systematic":
            assert info.num_updates == 250
    assert kernel.num_classes == 2


def test_random_scan_visits_every_class_equally_often():
    kernel, generator = GibbsKernel(MODELS["neural"], "random"), seeded()
    visits = torch.tensor([kernel._visits(generator) for _ in range(1000)])
    counts = torch.bincount(visits.flatten(), minlength=4)
    assert visits.shape == (1000, kernel.num_classes)
    assert int((counts - 1000).abs().max()) < 130


def test_impossible_starts_find_possible_states():
    model = MODELS["zeros"]
    for kernel in (GibbsKernel(model), GibbsKernel(model, largest_blanket=0)):
        generator = seeded()
        state = kernel.init(200, generator)
        before = model.log_score(state.states) == -torch.inf
        state, _ = run_chains(kernel, state, 100, generator)
        after = model.log_score(state.states) == -torch.inf
        assert int(before.sum()) > 100 > 10 > int(after.sum())


def test_possible_states_stay_possible():
    model = MODELS["zeros"]
    kernel, generator = GibbsKernel(model), seeded()
    state, _ = run_chains(kernel, kernel.init(200, generator), 100, generator)
    possible = state.states[model.log_score(state.states) > -torch.inf]
    state = kernel.init(len(possible), generator, possible)
    for _ in range(20):
        state, _ = kernel.step(state, generator)
        assert bool((model.log_score(state.states) > -torch.inf).all())


def test_few_temperatures_are_kept():
    kernel, generator = GibbsKernel(MODELS["ladder"]), seeded()
    state = kernel.init(2, generator)
    betas = [step / 100 for step in range(MOST_TEMPERATURES + 10)]
    run_chains(kernel, state, len(betas), generator, betas=betas)
    assert len(kernel._thresholds) == MOST_TEMPERATURES


def test_the_kept_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(gibbs, "MOST_ENTRIES", 1)
    kernel, generator = GibbsKernel(MODELS["ladder"]), seeded()
    run_chains(kernel, kernel.init(2, generator), 3, generator, betas=[0.1, 0.2, 0.3])
    assert list(kernel._thresholds) == [0.3]


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError, match=r"scan.*not 'sideways'"):
        GibbsKernel(MODELS["ladder"], "sideways")
    with pytest.raises(ConfigError, match="largest_blanket"):
        GibbsKernel(MODELS["ladder"], largest_blanket=10**6)


@pytest.mark.parametrize("largest_blanket", [0, LARGEST_BLANKET])
def test_held_variables_stay_and_the_others_are_drawn_given_them(largest_blanket):
    model = zoo.ising_lattice(side=3, sigma=0.2, seed=0)
    kernel = GibbsKernel(model, largest_blanket=largest_blanket)
    generator = torch.Generator().manual_seed(0)
    states = kernel.init(4000, generator).states
    held = torch.zeros(4000, 9, dtype=torch.bool)
    held[:2000, 4] = True  # the centre in half of the chains, a corner in the other half
    held[2000:, 0] = True
    states[:2000, 4], states[2000:, 0] = 1, 0
    chains = kernel.init(4000, generator, states, held)
    for _ in range(30):
        chains, _ = kernel.step(chains, generator)
    found = chains.states
    assert bool((found[:2000, 4] == 1).all())
    assert bool((found[2000:, 0] == 0).all())
    names = [variable.name for variable in model.variables]
    for half, evidence in ((found[:2000], {names[4]: 1}), (found[2000:], {names[0]: 0})):
        truth = np.array([row[1] for row in exact(model, evidence).marginals().values()])
        np.testing.assert_allclose(half.double().mean(0).numpy(), truth, atol=0.05)
