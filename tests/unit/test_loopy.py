"""Belief propagation: settings, zeros, the fast paths against the slow one, errors."""

import math

import numpy as np
import pytest
import torch

from deltaai.errors import (
    ConfigError,
    DeltaAIError,
    EvidenceError,
    ImpossibleEvidenceError,
    ModelError,
)
from deltaai.messages import loopy_belief_propagation
from deltaai.messages.loopy import tables
from deltaai.messages.loopy.log_odds import LogOddsMessages
from deltaai.messages.loopy.potentials import Potentials
from deltaai.messages.loopy.tables import TableMessages
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable, zoo


def pairs_of_bits(seed, scale):
    """A loopy model of two-state variables: tables, couplings and fields."""
    rng = np.random.default_rng(seed)
    model = zoo.ising_lattice(side=4, sigma=0.3 * scale, seed=seed)
    names = [variable.name for variable in model.variables]
    scopes = [sorted(rng.choice(names, 2, replace=False)) for _ in range(6)]
    extra = [TableFactor(scope, scale * rng.normal(size=(2, 2))) for scope in scopes]
    return FactorGraph(model.variables, [*model.factors, *extra])


def steps(engine, number, damping=0.4):
    for _ in range(number):
        residual = engine.step(damping)
    return residual


@pytest.mark.parametrize("scale", [0.2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_log_odds_equal_the_general_path(seed, scale):
    potentials = Potentials.build(pairs_of_bits(seed, scale))
    assert LogOddsMessages.fits(potentials)
    fast, general = LogOddsMessages(potentials), TableMessages(potentials)
    if scale < 1:  # there is a fixed point
        steps(fast, 300)
        steps(general, 300)
    else:  # the same iterate from the same messages
        steps(fast, 3)
        general.messages = fast.log_messages().clone()
        steps(fast, 1, damping=0.0)
        steps(general, 1, damping=0.0)
    for found, expected in zip(
        potentials.gather(fast.log_messages()), potentials.gather(general.messages), strict=True
    ):
        ours, theirs = (
            torch.cat([_log_odds(part) for part in _parts(potentials, row)])
            for row in (found, expected)
        )
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


def _parts(potentials, row):
    if len(row) == len(potentials.fields):
        return [row[states] for _, states in potentials.by_size]
    return [place for block in potentials.blocks for place in block.places(row)]


def _log_odds(part):
    return part[1] - part[0]


def test_products_equal_sums_of_logarithms(monkeypatch):
    model = zoo.random_factor_graph(
        12, 14, min_states=2, max_arity=4, max_states=5, zero_fraction=0.0, scale=0.5, seed=1
    )
    fast = loopy_belief_propagation(model, num_iterations=30, tolerance=0)
    monkeypatch.setattr(tables, "LARGEST_LOG_RATIO", -1.0)
    slow = loopy_belief_propagation(model, num_iterations=30, tolerance=0)
    assert fast.log_partition == pytest.approx(slow.log_partition, abs=1e-10)
    assert fast.residual == pytest.approx(slow.residual, abs=1e-10)
    for name, row in slow.marginals().items():
        np.testing.assert_allclose(fast.marginals()[name], row, atol=1e-10)


@pytest.mark.parametrize("strength", [20.0, 149.0, 151.0, 5000.0])
def test_extreme_couplings_stay_finite_and_exact(strength):
    """Also where the fast path must hand over to the general one."""
    model = FactorGraph(
        [Variable(name, 2) for name in "abc"],
        [
            SpinCoupling("a", "b", strength),
            SpinCoupling("b", "c", -strength),
            TableFactor(["a"], [0.0, 2.0]),
        ],
    )
    found = loopy_belief_propagation(model, damping=0)
    one = 1 / (1 + math.exp(-2))
    for name, expected in zip("abc", (one, one, 1 - one), strict=True):
        assert found.marginals()[name][1] == pytest.approx(expected, abs=1e-10)
    assert found.log_partition == pytest.approx(2 * strength + math.log(1 + math.exp(2)), rel=1e-12)


def test_zeros_on_cycles_give_no_nan():
    for seed in range(20):
        model = zoo.random_factor_graph(
            8, 12, max_arity=3, max_states=3, zero_fraction=0.3, seed=seed
        )
        for damping in (0.0, 0.5):
            found = loopy_belief_propagation(model, damping=damping, num_iterations=60)
            assert math.isfinite(found.log_partition)
            assert not math.isnan(found.residual)
            for row in found.marginals().values():
                assert row.sum() == pytest.approx(1)
            for group in found.factor_beliefs():
                sums = group.beliefs.flatten(1).sum(1)
                torch.testing.assert_close(sums, torch.ones_like(sums))


def test_hard_constraints_around_a_cycle():
    """All equal: what is known of one is known of all, though the graph has a cycle."""
    equal = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    names = "abcd"
    ring = [
        TableFactor.from_values([u, v], equal)
        for u, v in zip(names, names[1:] + names[:1], strict=True)
    ]
    known = TableFactor.from_values(["a"], [0, 1, 0])
    found = loopy_belief_propagation(FactorGraph([Variable(n, 3) for n in names], [*ring, known]))
    assert found.is_converged
    assert found.log_partition == pytest.approx(0.0, abs=1e-12)
    for row in found.marginals().values():
        np.testing.assert_allclose(row, [0, 1, 0])


def test_contradictions_are_named():
    variables = [Variable("a", 2), Variable("b", 2), Variable("c", 2)]
    equal = TableFactor.from_values(["a", "b"], [[1, 0], [0, 1]])
    same = TableFactor.from_values(["b", "c"], [[1, 0], [0, 1]])
    one, zero = (
        TableFactor.from_values([name], values) for name, values in (("a", [0, 1]), ("c", [1, 0]))
    )
    with pytest.raises(ImpossibleEvidenceError, match="factors contradict"):
        loopy_belief_propagation(FactorGraph(variables, [equal, same, one, zero]))
    with pytest.raises(ImpossibleEvidenceError, match="evidence has probability zero"):
        loopy_belief_propagation(FactorGraph(variables, [equal, same, one]), {"c": 0})
    twice = [TableFactor.from_values(["a"], values) for values in ([0, 1], [1, 0])]
    soft = SpinCoupling("a", "b", 0.3)
    with pytest.raises(ImpossibleEvidenceError, match="factors contradict"):
        loopy_belief_propagation(FactorGraph(variables, [*twice, soft]))


def test_damping_makes_a_strong_model_converge():
    """Eight antiferromagnetic spins, all coupled, oscillate without damping."""
    names = [f"s{i}" for i in range(8)]
    couplings = [SpinCoupling(u, v, -0.5) for i, u in enumerate(names) for v in names[:i]]
    tilt = [TableFactor([name], [0.0, 0.3]) for name in names]
    model = FactorGraph([Variable(name, 2) for name in names], [*couplings, *tilt])
    assert not loopy_belief_propagation(model, damping=0).is_converged
    damped = loopy_belief_propagation(model, damping=0.7, num_iterations=500)
    assert damped.is_converged
    assert damped.residual <= 1e-6


def test_the_same_call_gives_the_same_bits():
    model = zoo.ising_lattice(side=6, sigma=0.3, seed=0)
    first, second = (loopy_belief_propagation(model) for _ in range(2))
    assert first.log_partition == second.log_partition
    for name, row in first.marginals().items():
        assert row.tobytes() == second.marginals()[name].tobytes()


def test_iterations_are_counted_and_reported():
    model = zoo.ising_lattice(side=4, sigma=0.2, seed=0)
    seen = []
    found = loopy_belief_propagation(model, num_iterations=7, tolerance=0, progress=seen.append)
    assert seen == [(i + 1) / 7 for i in range(7)]
    assert (found.num_iterations, found.is_converged) == (7, False)
    assert found.residual > 0
    none = loopy_belief_propagation(model, num_iterations=0)
    assert (none.num_iterations, none.is_converged, none.residual) == (0, False, math.inf)
    empty = loopy_belief_propagation(FactorGraph([Variable("a", 2)], []), num_iterations=0)
    assert (empty.is_converged, empty.residual) == (True, 0.0)
    assert empty.log_partition == pytest.approx(math.log(2))


def test_learnable_factors_and_single_precision_are_read_as_they_are():
    table = torch.tensor([[0.0, 1.0], [2.0, 0.5]], requires_grad=True)
    variables = [Variable("a", 2), Variable("b", 2)]
    model = FactorGraph(variables, [TableFactor(["a", "b"], table)], dtype=torch.float32)
    found = loopy_belief_propagation(model)
    expected = float(torch.logsumexp(table.detach().double().flatten(), 0))
    assert found.log_partition == pytest.approx(expected, abs=1e-10)
    assert found.factor_beliefs()[0].beliefs.dtype == torch.float64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"damping": 1.0}, "damping"),
        ({"damping": -0.1}, "damping"),
        ({"damping": math.nan}, "damping"),
        ({"num_iterations": -1}, "num_iterations"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"schedule": "random"}, "'random'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        loopy_belief_propagation(zoo.sprinkler(), **settings)


def test_tables_too_large_are_refused_and_evidence_helps():
    names = [f"v{i}" for i in range(6)]
    model = FactorGraph([Variable(n, 4) for n in names], [TableFactor(names, np.zeros((4,) * 6))])
    with pytest.raises(ModelError, match=r"over \(v0, .*\) has a table of 4096 entries"):
        loopy_belief_propagation(model, largest_table=1000)
    found = loopy_belief_propagation(model, {"v0": 0}, largest_table=1024)
    assert found.log_partition == pytest.approx(5 * math.log(4))


def test_bad_values_and_bad_evidence_are_refused():
    model = FactorGraph([Variable("a", 2), Variable("b", 2)], [TableFactor(["a", "b"], np.eye(2))])
    model.groups[0].tables[0, 1, 1] = math.nan
    with pytest.raises(ModelError, match="factor 0 over"):
        loopy_belief_propagation(model)
    with pytest.raises(EvidenceError, match="no variable"):
        loopy_belief_propagation(zoo.sprinkler(), {"snow": 1})
    assert issubclass(ConfigError, DeltaAIError)
