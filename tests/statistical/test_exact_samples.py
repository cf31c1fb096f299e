"""Exact samples follow the model, and the test would notice if they did not."""

import pytest
import torch

from deltaai.exact import Enumeration, exact
from deltaai.models import zoo
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

MODELS = {
    "lattice": (zoo.ising_lattice(side=3, sigma=0.4, seed=0), {}),
    "network": (zoo.sprinkler(), {"wet_grass": "yes"}),
    "zeros": (
        zoo.random_factor_graph(5, 6, max_states=3, zero_fraction=0.3, min_states=2, seed=4),
        {},
    ),
    "disconnected": (zoo.random_factor_graph(6, 3, max_arity=2, min_states=2, seed=1), {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_samples_pass_chi_square(name):
    model, evidence = MODELS[name]
    oracle = Enumeration(model, evidence)
    samples = exact(model, evidence).sample(20_000, torch.Generator().manual_seed(1))
    p_value = chi_square_p_value(oracle.states, samples, oracle.probabilities())
    assert p_value > FALSE_FAILURE


def test_a_slightly_wrong_sampler_fails():
    """Power: samples of a model whose couplings are 10 % off are recognised."""
    right = zoo.ising_lattice(side=3, sigma=0.4, seed=0)
    wrong = zoo.ising_lattice(side=3, sigma=0.44, seed=0)
    oracle = Enumeration(right)
    samples = exact(wrong).sample(20_000, torch.Generator().manual_seed(1))
    p_value = chi_square_p_value(oracle.states, samples, oracle.probabilities())
    assert p_value < FALSE_FAILURE


def test_samples_repeat_with_the_generator():
    engine = exact(zoo.sprinkler())
    first = engine.sample(100, torch.Generator().manual_seed(3))
    assert torch.equal(first, engine.sample(100, torch.Generator().manual_seed(3)))
    assert not torch.equal(first, engine.sample(100, torch.Generator().manual_seed(4)))
