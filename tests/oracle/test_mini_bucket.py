"""Mini-bucket bounds against exact log Z: never below it, and equal when nothing is split."""

import math

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError, DeltaAIError, ImpossibleEvidenceError
from deltaai.exact import Enumeration, exact
from deltaai.exact.log_tables import LogTable
from deltaai.messages.mini_buckets.bound import mini_bucket_bound
from deltaai.messages.mini_buckets.partition import largest_affordable_plan, plan_mini_buckets
from deltaai.messages.mini_buckets.passes import MiniBucketPasses, log_marginalise
from deltaai.messages.mini_buckets.tightening import tighten
from deltaai.models import FactorGraph, TableFactor, Variable, zoo

TOLERANCE = 1e-9
CPU = torch.device("cpu")
QUICK = {"num_orders": 2, "num_iterations": 4}


def random_cases():
    """Mixed cardinalities, arity up to 4, zeros, disconnected parts, strong and weak factors."""
    for seed in range(18):
        rng = np.random.default_rng(seed)
        yield (
            f"random-{seed}",
            zoo.random_factor_graph(
                num_variables=int(rng.integers(4, 11)),
                num_factors=int(rng.integers(3, 18)),
                max_arity=2 + seed % 3,
                max_states=2 + seed % 2,
                zero_fraction=[0.0, 0.1, 0.25][seed % 3],
                scale=[0.5, 3.0, 20.0][seed // 6],
                seed=seed,
            ),
        )
    yield "ising", zoo.ising_lattice(side=4, sigma=0.7, seed=1)
    yield "torus", zoo.ising_torus(side=3, sigma=2.0, seed=1)
    yield "neural", zoo.factor_lattice(side=3, sigma=1.0, seed=1)
    yield "potts", zoo.potts_lattice(side=3, states=3, sigma=0.8, seed=1)
    yield "network", zoo.sprinkler()


CASES = list(random_cases())


def log_partition(model):
    """Enumerate; the library's exact answers refuse a model without possible states."""
    try:
        return exact(model).log_partition()
    except ImpossibleEvidenceError:
        return -math.inf


@pytest.mark.parametrize("model", [m for _, m in CASES], ids=[name for name, _ in CASES])
def test_never_below_log_partition_and_equal_when_nothing_is_split(model):
    expected = log_partition(model)
    width = exact(model).elimination.width
    for i_bound in range(1, width + 1):
        bound = mini_bucket_bound(model, i_bound=i_bound, **QUICK)
        assert not math.isnan(bound.upper)
        assert bound.upper >= expected - TOLERANCE
        largest = max((len(factor.scope) for factor in model.factors), default=1)
        assert bound.i_bound <= max(i_bound, largest - 1)
        if bound.is_exact:
            assert bound.upper == pytest.approx(expected, abs=TOLERANCE)
    full = mini_bucket_bound(model, i_bound=max(width, 1))
    assert full.is_exact
    assert full.upper == pytest.approx(expected, abs=TOLERANCE)


def impossible(name):
    """Two factors of which each allows the state that the other forbids."""
    return [TableFactor([name], [-math.inf, 0.0]), TableFactor([name], [0.0, -math.inf])]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (FactorGraph([Variable("a", 3)], []), math.log(3)),
        (FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])]), 2.0),
        (FactorGraph([], [TableFactor([], 1.5)]), 1.5),
        (FactorGraph([], []), 0.0),
        (FactorGraph([Variable("a", 3), Variable("b", 2)], []), math.log(6)),
        (FactorGraph([Variable("a", 2)], [TableFactor(["a"], [-math.inf, 0.5])]), 0.5),
        (FactorGraph([Variable("a", 2)], impossible("a")), -math.inf),
    ],
)
def test_small_models(model, expected):
    bound = mini_bucket_bound(model)
    assert bound.is_exact
    assert bound.upper == pytest.approx(expected, abs=TOLERANCE)


def contradiction(length):
    """A ring of inequalities between two states; of odd length no state satisfies all."""
    differ = [[-math.inf, 0.0], [0.0, -math.inf]]
    names = [f"v{i}" for i in range(length)]
    factors = [
        TableFactor([a, b], differ) for a, b in zip(names, names[1:] + names[:1], strict=True)
    ]
    return FactorGraph([Variable(name, 2) for name in names], factors)


def test_a_model_without_possible_states():
    assert mini_bucket_bound(contradiction(5)).upper == -math.inf
    split = mini_bucket_bound(contradiction(5), i_bound=1, **QUICK)
    assert not split.is_exact
    assert not math.isnan(split.upper)
    # Unary zeros are passed on between mini-buckets, so a split model is refuted too.
    model = zoo.ising_lattice(side=3, sigma=1.0, seed=0)
    dead = FactorGraph(model.variables, [*model.factors, *impossible(model.variables[4].name)])
    assert mini_bucket_bound(dead, i_bound=1).upper == -math.inf


def test_even_ring_of_zeros_has_two_states():
    bound = mini_bucket_bound(contradiction(6), i_bound=1, **QUICK)
    assert bound.upper >= math.log(2) - TOLERANCE


def test_evidence_is_conditioning():
    model = zoo.ising_lattice(side=5, sigma=0.8, seed=3)
    evidence = {model.variables[v].name: v % 2 for v in (0, 7, 12)}
    bound = mini_bucket_bound(model, evidence, i_bound=2, **QUICK)
    reduced = mini_bucket_bound(model.condition(evidence), i_bound=2, **QUICK)
    assert bound.upper == reduced.upper
    assert bound.upper >= exact(model, evidence).log_partition() - TOLERANCE


def test_deterministic_and_progress():
    model = zoo.ising_lattice(side=6, sigma=0.8, seed=3)
    fractions = []
    first = mini_bucket_bound(model, i_bound=2, progress=fractions.append, **QUICK)
    assert first.upper == mini_bucket_bound(model, i_bound=2, **QUICK).upper
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_tightens_with_orders_iterations_and_tables():
    model = zoo.ising_lattice(side=7, sigma=0.8, seed=3)
    expected = exact(model).log_partition()
    plain = mini_bucket_bound(model, i_bound=3, num_orders=2, num_iterations=0).upper
    ordered = mini_bucket_bound(model, i_bound=3, num_orders=8, num_iterations=0).upper
    moved = mini_bucket_bound(model, i_bound=3, num_orders=8).upper
    wide = mini_bucket_bound(model, i_bound=5, num_orders=8).upper
    assert expected < wide < moved < ordered <= plain
    assert moved - expected < 0.5 * (plain - expected)


# -- the parts ---------------------------------------------------------------------------------


def split_passes(seed, most_variables=2):
    """Passes over a lattice of three states in the order of its variables."""
    model = zoo.potts_lattice(side=3, states=3, sigma=0.8, seed=seed)
    factors = [
        LogTable(tuple(group_scope), table.reshape(-1))
        for group in model.groups
        for group_scope, table in zip(group.scopes.tolist(), group.log_tables(), strict=True)
        if group_scope == sorted(group_scope)
    ]
    plan = plan_mini_buckets(
        [table.scope for table in factors], [3] * 9, most_variables=most_variables
    )
    return model, MiniBucketPasses(plan, factors, CPU)


def test_any_weights_and_shifts_give_a_bound():
    model, passes = split_passes(seed=0)
    expected = Enumeration(model).log_partition()
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        for variable, shifts in passes.shifts.items():
            bucket = passes.plan.buckets[variable]
            weights = torch.rand(len(bucket), generator=generator).double() + 0.01
            for number, weight in zip(bucket, (weights / weights.sum()).tolist(), strict=True):
                passes.weights[number] = weight
            shifts.copy_(torch.randn(shifts.shape, generator=generator))
            shifts.sub_(shifts.mean(0))
        assert passes.up() >= expected - TOLERANCE


def test_matching_and_tightening_keep_weights_and_shifts_balanced():
    model, passes = split_passes(seed=1)
    unmatched, matched = passes.up(), passes.up(is_matching=True)
    lowest = tighten(passes, 20, lambda _: None)
    assert Enumeration(model).log_partition() - TOLERANCE <= lowest < matched < unmatched
    for variable, shifts in passes.shifts.items():
        weights = [passes.weights[number] for number in passes.plan.buckets[variable]]
        assert min(weights) > 0
        assert math.fsum(weights) == pytest.approx(1.0, abs=1e-12)
        assert float(shifts.sum(0).abs().max()) < 1e-10


def test_slopes_are_those_of_differences():
    _, passes = split_passes(seed=2, most_variables=3)
    passes.up(is_matching=True)
    slopes = passes.down()
    step = 1e-6
    for variable in passes.plan.split:
        shifts = passes.shifts[variable]
        for place in range(len(shifts)):
            shifts[place, 0] += step
            above = passes.up()
            shifts[place, 0] -= 2 * step
            slope = (above - passes.up()) / (2 * step)
            shifts[place, 0] += step
            assert slope == pytest.approx(float(slopes[variable].shifts[place, 0]), abs=1e-7)
            number = passes.plan.buckets[variable][place]
            weight = passes.weights[number]
            passes.weights[number] = weight + step
            above = passes.up()
            passes.weights[number] = weight - step
            slope = (above - passes.up()) / (2 * step)
            passes.weights[number] = weight
            assert slope == pytest.approx(float(slopes[variable].weights[place]), abs=1e-7)


def test_log_marginal_is_exact_for_minus_infinity():
    values = torch.tensor([0.0, -math.inf, -math.inf, -math.inf, 1.0, 2.0]).double()
    out = torch.empty(2).double()
    log_marginalise(values, (0, 1), (1,), [3, 2], torch.empty(6).double(), out)
    assert out.tolist() == pytest.approx([math.log(1 + math.e), 2.0])
    kept = torch.empty(3).double()
    log_marginalise(values, (0, 1), (0,), [3, 2], torch.empty(6).double(), kept)
    assert kept[:2].tolist() == [0.0, -math.inf]


# -- limits ------------------------------------------------------------------------------------


def held_entries(passes):
    """Numbers in all tensors that the passes keep, each storage once."""
    tensors = [passes._scaled, *passes._buffers, *passes.shifts.values()]
    tensors += [table.values for table in [*passes._messages, *passes._from_above]]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values()) // 8


@pytest.mark.parametrize("memory_limit", [150_000, 200_000, 4_000_000])
def test_memory_is_kept(memory_limit):
    model = zoo.ising_lattice(side=9, sigma=0.5, seed=0)
    bound = mini_bucket_bound(model, memory_limit=memory_limit, **QUICK)
    assert bound.memory <= memory_limit
    assert bound.is_exact == (memory_limit == 4_000_000)
    scopes = [(i, j) for i in range(12) for j in range(i + 1, 12) if (i * j) % 3 != 1]
    plan = largest_affordable_plan(
        scopes, [3] * 12, memory_limit=memory_limit, most_total_entries=2**30
    )
    factors = [LogTable(scope, torch.zeros(9).double()) for scope in scopes]
    passes = MiniBucketPasses(plan, factors, CPU)
    assert 8 * (held_entries(passes) + 9 * len(scopes)) <= plan.memory
    passes.up(is_matching=True)


def test_larger_limits_give_larger_tables():
    model = zoo.ising_lattice(side=9, sigma=0.5, seed=0)
    small, large = (
        mini_bucket_bound(model, most_total_entries=entries, **QUICK) for entries in (2**9, 2**12)
    )
    assert small.i_bound < large.i_bound <= large.width
    assert large.upper < small.upper


def test_a_factor_larger_than_the_limit_has_a_mini_bucket_of_its_own():
    table = TableFactor(list("abcd"), np.arange(16.0).reshape(2, 2, 2, 2))
    ring = [TableFactor([a, b], [[0.0, 1.0], [1.0, 0.5]]) for a, b in ("ab", "be", "ef", "fa")]
    model = FactorGraph([Variable(name, 2) for name in "abcdef"], [table, *ring])
    bound = mini_bucket_bound(model, i_bound=1)
    assert bound.i_bound == 3
    assert bound.upper >= exact(model).log_partition() - TOLERANCE


@pytest.mark.parametrize(
    "settings", [{"i_bound": 0}, {"num_orders": 0}, {"most_total_entries": 0}, {"memory_limit": 8}]
)
def test_bad_settings_are_refused(settings):
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    with pytest.raises(ConfigError, match=r"at least 1|raise the limit"):
        mini_bucket_bound(model, **settings)


def test_impossible_evidence_is_named():
    with pytest.raises(DeltaAIError):
        mini_bucket_bound(zoo.sprinkler(), {"no such variable": 0})
