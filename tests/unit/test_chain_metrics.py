"""ESS, R-hat, likelihood and ground truth on cases with a known answer."""

import math

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError, StateError
from deltaai.exact import Enumeration, exact
from deltaai.metrics import chain_diagnostics, ground_truth, negative_log_likelihood
from deltaai.models import zoo


def autoregressive(coefficient, chains, draws, seed):
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((chains, draws))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for t in range(1, draws):
        scale = math.sqrt(1 - coefficient**2)
        values[:, t] = coefficient * values[:, t - 1] + scale * noise[:, t]
    return torch.from_numpy(values)


@pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.9])
def test_effective_sample_size_of_an_autoregressive_chain(coefficient):
    found = chain_diagnostics(autoregressive(coefficient, 4, 10_000, 0))
    expected = 40_000 * (1 - coefficient) / (1 + coefficient)
    assert float(found.ess) == pytest.approx(expected, rel=0.1)
    assert float(found.rhat) < 1.01
    assert found.num_draws == 40_000


def test_chains_that_disagree_or_stand_still():
    draws = torch.randn(4, 200, 3, generator=torch.Generator().manual_seed(0))
    draws[0, :, 1] += 5.0  # one chain elsewhere
    draws[:, :, 2] = 1.0
    found = chain_diagnostics(draws)
    assert found.ess.shape == found.rhat.shape == (3,)
    assert found.rhat[0] < 1.02
    assert found.rhat[1] > 1.5
    assert found.rhat[2].isnan()
    assert found.ess[2] == 800
    assert found.worst_rhat == float(found.rhat[1])
    assert found.worst_ess == float(found.ess[1])
    still = torch.arange(4.0)[:, None].repeat(1, 10)
    assert chain_diagnostics(still).worst_rhat == math.inf
    assert math.isnan(chain_diagnostics(torch.ones(2, 10)).worst_rhat)


def test_integer_states_are_taken():
    states = torch.randint(2, (5, 400, 2), generator=torch.Generator().manual_seed(1))
    assert chain_diagnostics(states).worst_ess > 1000


@pytest.mark.parametrize("shape", [(3, 3), (0, 10)])
def test_too_few_draws(shape):
    with pytest.raises(StateError, match="draws have shape"):
        chain_diagnostics(torch.zeros(shape))


def test_draws_that_are_not_finite():
    with pytest.raises(StateError, match="not finite"):
        chain_diagnostics(torch.full((2, 8), math.nan))


def test_likelihood_of_a_known_distribution():
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    truth = ground_truth(model, 4000, seed=0)
    assert truth.is_exact
    assert truth.log_partition == pytest.approx(Enumeration(model).log_partition(), abs=1e-9)
    perfect = negative_log_likelihood(exact(model).log_prob, truth.states, 999, truth.log_prob)
    assert perfect.gap == pytest.approx(0.0, abs=1e-12)
    assert perfect.mean == pytest.approx(truth.mean_negative_log_likelihood)
    other = exact(zoo.ising_lattice(side=3, sigma=0.4, seed=0))
    scored = negative_log_likelihood(other.log_prob, truth.states, 7, truth.log_prob)
    enumeration = Enumeration(model)
    log_p = exact(model).log_prob(enumeration.states).double()
    log_q = other.log_prob(enumeration.states).double()
    divergence = float((log_p.exp() * (log_p - log_q)).sum())
    assert abs(scored.gap - divergence) < 4 * scored.gap_stderr
    assert scored.gap_stderr < scored.stderr / 2  # what pairing is for
    alone = negative_log_likelihood(other.log_prob, truth.states)
    assert (alone.mean, alone.gap, alone.gap_stderr) == (pytest.approx(scored.mean), None, None)


def test_likelihood_of_impossible_and_bad_values():
    states = torch.zeros(3, 2, dtype=torch.long)
    forbidden = negative_log_likelihood(lambda x: torch.full((len(x),), -math.inf), states)
    assert (forbidden.mean, forbidden.stderr) == (math.inf, math.inf)
    with pytest.raises(StateError, match="NaN"):
        negative_log_likelihood(lambda x: torch.full((len(x),), math.nan), states)
    with pytest.raises(StateError, match="one for each state"):
        negative_log_likelihood(lambda x: torch.zeros(1), states)
    with pytest.raises(StateError, match="at least one"):
        negative_log_likelihood(lambda x: torch.zeros(len(x)), states[:0])
    with pytest.raises(ConfigError, match="batch is 0"):
        negative_log_likelihood(lambda x: torch.zeros(len(x)), states, 0)


def test_ground_truth_repeats_and_falls_back_to_chains():
    model = zoo.ising_lattice(side=3, sigma=0.2, seed=0)
    first, second = ground_truth(model, 50, seed=3), ground_truth(model, 50, seed=3)
    assert torch.equal(first.states, second.states)
    chains = ground_truth(model, 2000, seed=0, memory_limit=1, num_anneal=20, num_steps=50)
    assert chains.source == "annealed Gibbs"
    assert not chains.is_exact
    assert chains.log_prob is None
    assert chains.mean_negative_log_likelihood is None
    marginals = exact(model).marginals()
    for variable, mean in zip(model.variables, chains.states.double().mean(0), strict=True):
        assert float(mean) == pytest.approx(marginals[variable.name][1], abs=0.06)
    with pytest.raises(ConfigError, match="at least 1"):
        ground_truth(model, 0, seed=0)
