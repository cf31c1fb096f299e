"""Samples from mini-bucket messages and annealed chains against enumeration."""

import math

import numpy as np
import pytest
import torch

from deltaai.errors import NotAffordableError
from deltaai.exact import Enumeration
from deltaai.mcmc.annealed import annealed_importance
from deltaai.messages.mini_buckets.sampling import MessageSampler
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable, zoo
from deltaai.trust.opinions import second_opinion
from deltaai.trust.weighted import WeightedSamples
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

MANY = {"memory_limit": 2**28, "most_total_entries": 2**20}
MODELS = {
    "ising": zoo.ising_lattice(side=3, sigma=0.8, seed=1),
    "torus": zoo.ising_torus(side=3, sigma=0.7, seed=1),
    "potts": zoo.potts_lattice(side=2, states=3, sigma=0.8, seed=1),
    "zeros": zoo.random_factor_graph(
        num_variables=8, num_factors=12, max_arity=3, max_states=3, zero_fraction=0.2, seed=5
    ),
    "network": zoo.sprinkler(),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def split(model):
    """As little in a table as there can be, so that buckets are split."""
    return MessageSampler.build(model, memory_limit=2**28, most_total_entries=2**20, i_bound=1)


@pytest.mark.parametrize("name", MODELS)
def test_unsplit_messages_are_the_exact_sampler(name):
    model = MODELS[name]
    oracle = Enumeration(model)
    sampler = MessageSampler.build(model, **MANY)
    assert sampler.is_exact
    assert sampler.upper == pytest.approx(oracle.log_partition(), abs=1e-9)
    states, log_weights = sampler.draw(20_000, 1, generator())
    assert torch.allclose(log_weights, torch.full_like(log_weights, sampler.upper))
    p_value = chi_square_p_value(oracle.states, states, oracle.probabilities())
    assert p_value > FALSE_FAILURE


@pytest.mark.parametrize("name", ["ising", "torus", "potts", "zeros"])
def test_weights_of_split_messages_are_those_of_the_distribution_they_draw_from(name):
    model = MODELS[name]
    oracle, sampler = Enumeration(model), split(model)
    assert not sampler.is_exact
    states, log_weights = sampler.draw(40_000, 1, generator())
    assert float(log_weights.max()) <= sampler.upper + 1e-9
    is_possible = log_weights > -torch.inf
    assert bool((is_possible == (model.log_score(states) > -torch.inf)).all())
    # A weight is p~ / q, so it says what q is; q must sum to one and be what was drawn from.
    index = {tuple(row): place for place, row in enumerate(oracle.states.tolist())}
    q = np.zeros(len(index))
    scores = model.log_score(states)
    for row, score, weight in zip(
        states[is_possible].tolist(),
        scores[is_possible].tolist(),
        log_weights[is_possible].tolist(),
        strict=True,
    ):
        place = index[tuple(row)]
        found = math.exp(score - weight)
        assert q[place] in (0.0, pytest.approx(found))  # the same whenever it is drawn
        q[place] = found
    dead = 1 - float(is_possible.double().mean())
    assert q.sum() <= 1 + 1e-9
    assert q.sum() == pytest.approx(1 - dead, abs=0.02)
    drawn = states[is_possible]
    assert chi_square_p_value(oracle.states, drawn, q / q.sum()) > FALSE_FAILURE


@pytest.mark.parametrize("group_size", [1, 16])
@pytest.mark.parametrize("name", ["ising", "torus", "zeros"])
def test_the_mean_weight_is_unbiased_and_weighted_marginals_are_right(name, group_size):
    model = MODELS[name]
    oracle = Enumeration(model)
    drawn = split(model).draw(32_000 // group_size, group_size, generator())
    samples = WeightedSamples(model, *drawn, {}, group_size)
    found = samples.estimate
    assert abs(found.log_partition - oracle.log_partition()) < 4 * found.stderr + 1e-9
    errors = samples.marginal_errors()
    for variable, expected in oracle.marginals().items():
        off = np.abs(samples.marginals()[variable] - expected)
        assert (off < 4.5 * errors[variable] + 1e-9).all()


def test_annealed_chains_are_unbiased_where_plain_ones_are_not():
    """Chains that are cooled fast end in both wells alike; their weights know better."""
    names = [f"x{number}" for number in range(6)]
    pairs = [(a, b) for a in range(6) for b in range(a)]
    model = FactorGraph(
        [Variable(name) for name in names],
        [
            *(SpinCoupling(names[a], names[b], 0.6) for a, b in pairs),
            TableFactor(names[:1], [0.0, 1.5]),
        ],
    )
    oracle = Enumeration(model)
    states, log_weights = annealed_importance(model, 4000, 20, generator())
    samples = WeightedSamples(model, states, log_weights, {})
    found = samples.estimate
    assert abs(found.log_partition - oracle.log_partition()) < 4 * found.stderr
    expected = oracle.marginals()["x3"][1]
    assert abs(samples.marginals()["x3"][1] - expected) < 4 * samples.marginal_errors()["x3"][1]
    assert abs(float(states[:, 3].double().mean()) - expected) > 0.02


def test_a_second_opinion_says_what_it_can_see():
    model = zoo.ising_lattice(side=4, sigma=1.0, seed=0)
    found = second_opinion(model, {0: 1}, generator(), num_samples=1000)
    assert found is not None
    assert found.method == "messages"
    assert found.effective == pytest.approx(1000)
    assert found.visible_share == pytest.approx(-math.log(0.05) / 1000)
    assert bool((found.states[:, 0] == 1).all())
    fewer = second_opinion(model, {}, generator(), num_samples=100)
    assert fewer is not None
    assert fewer.visible_share > found.visible_share


def test_messages_that_do_not_fit_are_refused():
    with pytest.raises(NotAffordableError, match="messages need at least"):
        MessageSampler.build(MODELS["torus"], memory_limit=64, most_total_entries=2**20)
