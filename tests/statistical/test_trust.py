"""Planted errors: wrong samplers are untrusted, never confident; good ones are not doubted."""

import pytest
import torch

from deltaai.answering.table_query import query_table
from deltaai.exact import exact
from deltaai.fitting.fit_model import fit
from deltaai.fitting.posterior import Drawn
from deltaai.fitting.sampler import Sampler
from deltaai.importance import estimate_from_log_weights
from deltaai.models import FactorGraph, SpinCoupling, SpinField, Variable, zoo
from deltaai.trust.answer import sampled_answer
from deltaai.trust.verdicts import (
    Verdict,
    judge_bracket,
    judge_coverage,
    judge_halves,
    judge_weights,
)
from deltaai.trust.weighted import WeightedSamples

PEAKED = zoo.ising_lattice(side=4, sigma=1.0, seed=0)


def two_modes():
    """A ring of eight spins that all agree: two modes, all up and all down, the first likelier."""
    names = [f"x{number}" for number in range(8)]
    factors = [SpinCoupling(names[v], names[(v + 1) % 8], 1.5) for v in range(8)]
    factors += [SpinField(name, 0.02) for name in names]
    return FactorGraph([Variable(name, 2) for name in names], factors)


@pytest.fixture(scope="module")
def lost_mode():
    """A sampler that is right within one of the modes, as if a strong field had taken the other."""
    model = two_modes()
    pulled = FactorGraph(model.variables, [*model.factors, SpinField("x0", 4.0)])
    donor = fit(pulled, steps=300, target_kl=1e-5, seed=0)
    return Sampler(model, donor.proposal, donor.orders, donor.config)


@pytest.fixture(scope="module")
def both_modes():
    return fit(two_modes(), steps=150, seed=0)


def verdict_of(sampler, evidence=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    answer = sampler.posterior(evidence, 2000, generator)
    return sampler.trust(answer, generator), answer


@pytest.mark.parametrize("kind", ["one", "many", "any"])
def test_good_samplers_are_not_doubted(kind):
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    given = {"evidence": "any"} if kind == "any" else {"orders": kind}
    sampler = fit(model, steps=200, seed=0, **given)
    name = model.variables[4].name
    for seed in range(3):
        for evidence in ({}, {name: 1}):
            found, _ = verdict_of(sampler, evidence, seed)
            assert found.status == "estimated", str(found)


def test_an_untrained_sampler_is_untrusted():
    sampler = fit(PEAKED, steps=0, seed=0, is_informed=False)
    found, _ = verdict_of(sampler)
    assert found.status == "untrusted"


def test_a_sampler_of_another_model_is_untrusted():
    other = fit(zoo.ising_lattice(side=4, sigma=1.0, seed=1), steps=100, seed=0)
    mixed_up = Sampler(PEAKED, other.proposal, other.orders, other.config)
    found, _ = verdict_of(mixed_up)
    assert found.status == "untrusted"


def test_a_sampler_that_lost_a_mode_is_untrusted_though_its_weights_are_even(lost_mode):
    sampler, model = lost_mode, lost_mode.model
    generator = torch.Generator().manual_seed(0)
    answer = sampler.posterior({}, 2000, generator)
    # What was planted: the weights raise no doubt, and log Z is too low by the lost mode.
    assert judge_weights(answer.estimate) == ()
    assert exact(model).log_partition() - answer.estimate.log_partition > 0.3
    found = sampler.trust(answer, generator)
    assert found.status == "untrusted"
    assert "a part of the distribution is missing" in str(found)


def test_a_collapsed_sampler_is_untrusted():
    """One state with all the probability: even weights, and everything else is missing."""
    sampler = fit(PEAKED, steps=0, seed=0, is_informed=False)
    with torch.no_grad():
        for name, parameter in sampler.proposal.conditionals.named_parameters():
            parameter.zero_()
            if "last_bias" in name:
                parameter.fill_(12.0)
    found, answer = verdict_of(sampler)
    assert answer.estimate.ess_fraction > 0.9
    assert found.status == "untrusted"
    assert "a part of the distribution is missing" in str(found)


def test_few_effective_samples_and_heavy_tails_raise_doubts():
    generator = torch.Generator().manual_seed(0)
    few = estimate_from_log_weights(3 * torch.randn(200, generator=generator))
    assert any("effective" in doubt for doubt in judge_weights(few))
    tail = -torch.log(torch.rand(20_000, generator=generator, dtype=torch.float64))
    assert any("k-hat" in doubt for doubt in judge_weights(estimate_from_log_weights(tail)))
    even = estimate_from_log_weights(0.05 * torch.randn(2000, generator=generator))
    assert judge_weights(even) == ()


def opinion_of(num_samples):
    """A second opinion of so many samples of equal weight."""
    states = torch.zeros(num_samples, PEAKED.num_variables, dtype=torch.long)
    even = torch.zeros(num_samples, dtype=torch.float64)
    return WeightedSamples(PEAKED, states, even, {})


def test_coverage_has_power_and_no_false_alarms():
    generator = torch.Generator().manual_seed(0)
    zeros = torch.zeros(1000, dtype=torch.float64)
    spread = 0.5 * torch.randn(1000, generator=generator, dtype=torch.float64)
    for seed in range(20):
        same = spread[torch.randint(1000, (200,), generator=torch.Generator().manual_seed(seed))]
        assert judge_coverage(zeros, spread, opinion_of(200), same) == ()
    missed = spread[:200].clone()
    missed[:10] += 8.0  # 5 % of the opinion is where q hardly goes
    assert judge_coverage(zeros, spread, opinion_of(200), missed) != ()


def test_every_way_to_ask_a_wrong_sampler_says_untrusted(lost_mode):
    sampler = lost_mode
    generator = torch.Generator().manual_seed(0)
    assert sampler.log_partition(2000, generator).status == "untrusted"
    assert sampler.marginals({}, 2000, generator).status == "untrusted"
    assert sampler.answer({}, 2000, generator).doubts
    table = query_table(sampler, [{}, {}], num_samples=2000)
    assert set(table.status) == {"untrusted"}
    assert all("messages" in doubt for doubt in table.doubts)
    assert sampler.diagnose()["status"] == "untrusted"


def test_a_lost_mode_widens_the_bracket_and_a_bound_just_above_narrows_it(lost_mode, both_modes):
    truth = exact(lost_mode.model).log_partition()
    generator = torch.Generator().manual_seed(0)
    wrong = lost_mode.posterior({}, 2000, generator)
    found = sampled_answer(Drawn(wrong, wrong, Verdict("estimated")), 0.0, truth + 0.05)
    assert found.partition.status == "estimated"  # the bracket is too wide to answer by itself
    low, high = found.bracket
    assert low < found.log_partition < truth < high
    right = both_modes.posterior({}, 2000, generator)
    found = sampled_answer(Drawn(right, right, Verdict("untrusted", ("doubt",))), 0.0, truth + 0.05)
    assert (found.partition.status, found.status) == ("bounded", "untrusted")
    low, high = found.interval
    assert low <= truth <= high


def test_an_estimate_above_its_upper_bound_is_untrusted(both_modes):
    truth = exact(both_modes.model).log_partition()
    samples = both_modes.posterior({}, 2000, torch.Generator().manual_seed(0))
    found = sampled_answer(Drawn(samples, samples, Verdict("estimated")), 0.0, truth - 0.5)
    assert (found.status, found.partition.status) == ("untrusted", "untrusted")
    assert "above its upper bound" in found.doubts[0]
    assert judge_bracket(truth, 0.01, (truth - 1, truth)) == ()


def test_halves_that_disagree_raise_doubts():
    generator = torch.Generator().manual_seed(0)
    even = 0.1 * torch.randn(4000, generator=generator, dtype=torch.float64)
    assert judge_halves(even) == ()
    assert judge_halves(even, group_size=40) == ()
    shifted = even.clone()
    shifted[2000:] += 0.5
    assert "disagree" in judge_halves(shifted)[0]
    assert "disagree" in judge_halves(shifted, group_size=40)[0]
    assert judge_halves(even[:1]) == ()
