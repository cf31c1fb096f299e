"""Dense Gibbs updates, tempered messages and planned annealing against enumeration."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from deltaai.budget import Budget
from deltaai.errors import ConfigError
from deltaai.exact import Enumeration
from deltaai.mcmc.annealed import Start, cool
from deltaai.mcmc.annealing_plan import planned
from deltaai.mcmc.field_updates import FieldSweeps
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.message_start import MessageStart
from deltaai.messages.mini_buckets.sampling import MessageSampler
from deltaai.messages.mini_buckets.tight_messages import TightMessages, best_order
from deltaai.models import FactorGraph, SpinCoupling, SpinField, TableFactor, Variable, zoo
from deltaai.trust import opinions
from deltaai.trust.opinions import second_opinion
from deltaai.trust.weighted import WeightedSamples
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def complete(sizes, scale, seed=0):
    """Every variable coupled to every other, with tables on one and on two."""
    rng = np.random.default_rng(seed)
    names = [f"x{number}" for number in range(len(sizes))]
    factors = [TableFactor([], 0.7)]
    for b, size in enumerate(sizes):
        factors.append(TableFactor([names[b]], scale * rng.normal(size=size)))
        for a in range(b):
            table = scale * rng.normal(size=(sizes[a], size))
            factors.append(TableFactor([names[a], names[b]], table))
    variables = [Variable(name, size) for name, size in zip(names, sizes, strict=True)]
    return FactorGraph(variables, factors)


MIXED = complete([2, 3, 1, 2, 4, 2], 0.6)
SPINS = complete([2] * 8, 0.5)


def dense_kernel(model, scan="systematic"):
    kernel = GibbsKernel(model, scan, largest_blanket=0)
    assert kernel.fields is not None
    return kernel


@pytest.mark.parametrize("model", [MIXED, SPINS], ids=["mixed", "spins"])
def test_fields_give_the_log_score(model):
    kernel = dense_kernel(model)
    state = kernel.init(50, generator())
    torch.testing.assert_close(kernel.log_score(state), model.log_score(state.states).double())


def p_value_of_fields(model, scan="systematic", beta=1.0, fields=None):
    oracle, kernel = Enumeration(model), dense_kernel(model, scan)
    if fields is not None:
        kernel.fields = fields
    drawn = torch.multinomial(
        oracle.probabilities(), 20_000, replacement=True, generator=generator(1)
    )
    state = kernel.init(20_000, generator(), oracle.states[drawn])
    randomness = generator(2)
    for _ in range(3):
        state, _ = kernel.step(state, randomness, beta)
    return chi_square_p_value(oracle.states, state.states, oracle.probabilities())


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("model", [MIXED, SPINS], ids=["mixed", "spins"])
def test_updates_by_fields_leave_the_target_invariant(model, scan):
    assert p_value_of_fields(model, scan) > FALSE_FAILURE


@pytest.mark.parametrize("model", [MIXED, SPINS], ids=["mixed", "spins"])
def test_wrong_fields_would_be_noticed(model):
    """Power: a temperature 15 % off, and fields that are not kept up to date within a row."""
    assert p_value_of_fields(model, beta=0.85) < FALSE_FAILURE
    right = FieldSweeps.of(model)
    stale = replace(right, couplings=np.tril(right.couplings) * 0.7 + np.triu(right.couplings))
    assert p_value_of_fields(model, fields=stale) < FALSE_FAILURE


def test_held_variables_stay():
    kernel = dense_kernel(MIXED)
    held = torch.zeros(40, 6, dtype=torch.bool)
    held[:20, 1] = held[:, 4] = True
    state = kernel.init(40, generator(), held=held)
    moved, _ = kernel.step(state, generator(1))
    is_same = moved.states == state.states
    assert bool(is_same[held].all())
    assert not bool(is_same.all())


def test_fields_are_for_pairwise_models_without_zeros():
    three = zoo.random_factor_graph(5, 8, max_arity=3, max_states=2, min_states=2, seed=0)
    zero = FactorGraph([Variable("a"), Variable("b")], [TableFactor(["a"], [0.0, -math.inf])])
    assert any(group.arity == 3 for group in three.groups)
    assert FieldSweeps.of(three) is None
    assert FieldSweeps.of(zero) is None


def tempered_log_partition(model, beta):
    oracle = Enumeration(model)
    return float((beta * model.log_score(oracle.states).double()).logsumexp(0))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_messages_at_a_temperature(beta):
    """Unsplit they are exact; split, the mean weight is unbiased and no weight passes the bound."""
    limits = {"memory_limit": 2**28, "most_total_entries": 2**20, "beta": beta}
    log_z = tempered_log_partition(MIXED, beta)
    assert MessageSampler.build(MIXED, **limits).upper == pytest.approx(log_z, abs=1e-9)
    sampler = MessageSampler.build(MIXED, i_bound=1, **limits)
    _, log_weights = sampler.draw(4000, 1, generator())
    samples = WeightedSamples(MIXED, torch.zeros(4000, 6, dtype=torch.long), log_weights, {})
    assert abs(samples.estimate.log_partition - log_z) < 4 * samples.estimate.stderr + 1e-9
    assert float(log_weights.max()) <= sampler.upper + 1e-9


def split(beta):
    return MessageSampler.build(
        MIXED, memory_limit=2**28, most_total_entries=2**20, i_bound=1, beta=beta
    )


def annealed(kernel, start, num_temperatures, seed=0, *, may_meet=False):
    betas = np.linspace(start.beta, 1, num_temperatures + 1).tolist()
    cooled = cool(kernel, start, betas, 2, generator(seed), may_meet=may_meet)
    return WeightedSamples(kernel.model, *cooled.families(generator(seed + 1)), {})


def errors_of(samples):
    """How far log Z and marginals are from the truth, in standard errors."""
    oracle = Enumeration(samples.model)
    found = samples.estimate
    far = [abs(found.log_partition - oracle.log_partition()) / found.stderr]
    for name, expected in oracle.marginals().items():
        error = samples.marginal_errors()[name]
        far.append(float((np.abs(samples.marginals()[name] - expected) / (error + 1e-9)).max()))
    return max(far)


def test_chains_from_messages_are_unbiased():
    kernel = GibbsKernel(MIXED)
    start = MessageStart(kernel, 0.5, split(0.5)).draw(3000, generator())
    assert errors_of(annealed(kernel, start, 8)) < 4.5
    assert errors_of(annealed(kernel, MessageStart(kernel).draw(3000, generator()), 8)) < 4.5


PEAKED = complete([2, 3, 2, 2, 2, 3], 1.6, seed=2)


def test_chains_that_meet_are_unbiased():
    """So few temperatures that they are copied several times; a family counts once."""
    kernel = GibbsKernel(PEAKED)
    for seed in range(3):
        start = Start.hottest(kernel, 3000, generator(seed))
        samples = annealed(kernel, start, 6, seed, may_meet=True)
        assert bool((samples.log_weights == -math.inf).any())  # some families died out
        assert errors_of(samples) < 4.5


def test_families_keep_the_weight_of_all_their_members():
    kernel = GibbsKernel(PEAKED)
    start = Start.hottest(kernel, 500, generator())
    betas = np.linspace(0, 1, 7).tolist()
    cooled = cool(kernel, start, betas, 1, generator(), may_meet=True)
    states, log_weights = cooled.families(generator())
    torch.testing.assert_close(log_weights.logsumexp(0), cooled.log_weights.logsumexp(0))
    alive = log_weights > -math.inf
    assert set(cooled.ancestors.tolist()) == set(alive.nonzero()[:, 0].tolist())
    for family in alive.nonzero()[:, 0].tolist():  # the one that stands for it is a member
        members = cooled.states[cooled.ancestors == family]
        assert bool((members == states[family]).all(1).any())


def test_a_family_that_counted_more_than_once_would_be_noticed():
    """Power: taking every chain for independent makes errors too small on a peaked model."""
    kernel, far = GibbsKernel(PEAKED), []
    for seed in range(12):
        start = Start.hottest(kernel, 400, generator(seed))
        betas = np.linspace(0, 1, 5).tolist()
        cooled = cool(kernel, start, betas, 1, generator(seed), may_meet=True)
        every = WeightedSamples(PEAKED, cooled.states, cooled.log_weights, {})
        off = every.estimate.log_partition - Enumeration(PEAKED).log_partition()
        far.append(abs(off) / every.estimate.stderr)
        families = WeightedSamples(PEAKED, *cooled.families(generator()), {})
        assert abs(off) < 4.5 * families.estimate.stderr
    assert max(far) > 4.5


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_tight_messages_are_bounds_and_unbiased(beta):
    limits = {"memory_limit": 2**28, "most_total_entries": 60}
    matched, order = best_order(PEAKED, **limits)
    tight = TightMessages.build(PEAKED, order, **limits)
    log_z = tempered_log_partition(PEAKED, beta)
    sampler = tight.at(beta)
    assert not sampler.is_exact
    assert sampler.upper >= log_z
    states, log_weights = sampler.draw(4000, 1, generator())
    assert float(log_weights.max()) <= sampler.upper + 1e-9
    samples = WeightedSamples(PEAKED, states, log_weights, {})
    assert abs(samples.estimate.log_partition - log_z) < 4 * samples.estimate.stderr + 1e-9
    if beta == 1:
        assert sampler.upper == pytest.approx(tight.upper)
        assert log_z <= tight.upper < matched - 0.1


def test_messages_that_lie_on_a_torus_are_tightened_until_they_do_not():
    """Matched messages have even weights here and lack most of it; the bound tells."""
    model = zoo.ising_torus(side=14, sigma=2.0, seed=0)
    found = second_opinion(model, {}, generator(), num_samples=1000)
    assert found.method == "messages"
    assert found.certain_share == found.visible_share < 0.05


def test_a_start_at_another_temperature_would_be_noticed():
    """Power: states of beta 0.5 that are taken for those of 0.6."""
    kernel = GibbsKernel(MIXED)
    start = MessageStart(kernel, 0.5, split(0.5)).draw(3000, generator())
    assert errors_of(annealed(kernel, replace(start, beta=0.6), 8)) > 10


def test_the_coldest_start_is_as_cold_as_messages_are_good():
    kernel = GibbsKernel(MIXED)
    assert MessageStart.coldest(kernel, generator(), split, 0.5).beta == 0.875
    peaked = complete([2] * 14, 1.5, seed=3)

    def build(beta):
        return MessageSampler.build(
            peaked, memory_limit=2**28, most_total_entries=2**12, i_bound=2, beta=beta
        )

    found = MessageStart.coldest(GibbsKernel(peaked), generator(), build, 0.9)
    assert found.beta < 0.5


def test_a_plan_spends_what_it_may():
    kernel = GibbsKernel(zoo.ising_lattice(side=6, sigma=1.0, seed=0))
    pilot = Start.hottest(kernel, 64, generator())
    small = planned(kernel, pilot, 2e8, 4000, 1000.0, generator())
    large = planned(kernel, pilot, 2e9, 4000, 1000.0, generator())
    for plan in (small, large):
        assert plan.betas[0] == 0
        assert plan.betas[-1] == 1
        assert all(
            later > before for before, later in zip(plan.betas, plan.betas[1:], strict=False)
        )
    assert large.num_chains * len(large.betas) > small.num_chains * len(small.betas)
    few = planned(kernel, pilot, 2e9, 50, 10.0, generator())
    assert few.num_chains == 50


def test_betas_must_rise_from_the_start():
    kernel = GibbsKernel(SPINS)
    start = Start.hottest(kernel, 5, generator())
    for betas in ([0.1, 1.0], [0.0, 0.5, 0.5, 1.0]):
        with pytest.raises(ConfigError, match="must rise"):
            cool(kernel, start, betas, 1, generator())


def ferromagnet(num_spins, share):
    """All spins coupled alike; the part with the first one down has exactly this share."""
    names = [f"x{number}" for number in range(num_spins)]
    pairs = [(a, b) for a in range(num_spins) for b in range(a)]
    couplings = [SpinCoupling(names[a], names[b], 1.6 / num_spins) for a, b in pairs]
    field = SpinField(names[0], 0.5 * math.log((1 - share) / share))
    return FactorGraph([Variable(name) for name in names], [*couplings, field])


def test_the_share_of_the_planted_part_is_exact():
    assert Enumeration(ferromagnet(8, 0.07)).marginals()["x0"][0] == pytest.approx(0.07)


def test_what_annealed_chains_say_they_see_they_see(monkeypatch):
    """Parts of just the share that is said to be visible are among the samples, mostly."""
    monkeypatch.setattr(opinions, "_MOST_NEIGHBOURS", 0)  # no messages
    is_seen, model, share = [], ferromagnet(16, 0.2), 0.2
    for seed in range(25):
        found = second_opinion(model, {}, generator(seed), num_samples=60)
        assert found.method == "annealed chains"
        if share > found.visible_share:
            is_seen.append(bool((found.states[:, 0] == 0).any()))
    assert len(is_seen) >= 20
    assert all(is_seen)


def test_only_what_the_ceiling_makes_certain_counts_for_messages():
    model = zoo.ising_torus(side=14, sigma=2.0, seed=0)
    asked = opinions._Posterior(model, model, tuple(range(196)), {})
    found = asked.drawn(asked.messages(Budget.of()), 1000, 1, generator())
    assert found.is_certain
    assert found.visible_share == found.certain_share == 1.0


def test_the_budget_of_time_is_kept():
    model = complete([2] * 60, 0.2)
    assert second_opinion(model, {}, generator(), budget=Budget.of(2**30, 0.001)) is None
