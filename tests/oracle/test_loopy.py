"""Belief propagation against exact answers: equal on forests, close where couplings are weak."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaai.exact import Enumeration, exact
from deltaai.messages import loopy_belief_propagation
from deltaai.models import FactorGraph, SpinCoupling, SpinField, TableFactor, Variable, zoo

TOLERANCE = 1e-8


def random_table(rng, sizes, zero_fraction=0.0):
    """Log-table with zeros, none of them at the first entry."""
    table = rng.normal(scale=1.5, size=sizes)
    is_zero = rng.random(sizes) < zero_fraction
    is_zero[(0,) * len(sizes)] = False
    return np.where(is_zero, -np.inf, table)


def random_forest(seed, num_variables, max_arity=3, max_states=4, zero_fraction=0.0):
    """A forest of factors: each ties one old variable to new ones; also some fields."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_states + 1, num_variables)
    variables = [Variable(f"v{i}", int(size)) for i, size in enumerate(sizes)]
    factors, position = [TableFactor([], 0.7)], 1
    while position < num_variables:
        end = min(position + int(rng.integers(1, max_arity)), num_variables)
        scope = [*range(position, end)]
        if rng.random() < 0.9:  # otherwise a new tree begins
            scope.append(int(rng.integers(0, position)))
        scope = rng.permutation(scope).tolist()
        table = random_table(rng, tuple(sizes[scope]), zero_fraction)
        factors.append(TableFactor([f"v{v}" for v in scope], table))
        if rng.random() < 0.5:
            v = int(rng.integers(0, end))
            factors.append(TableFactor([f"v{v}"], random_table(rng, (sizes[v],), zero_fraction)))
        position = end
    return FactorGraph(variables, factors)


def binary_tree(seed, num_variables):
    """Couplings, fields and general tables over two-state variables."""
    rng = np.random.default_rng(seed)
    factors = []
    for v in range(1, num_variables):
        scope = [f"v{rng.integers(0, v)}", f"v{v}"]
        if v % 2:
            factors.append(SpinCoupling(*scope, float(rng.normal())))
        else:
            factors.append(TableFactor(scope, random_table(rng, (2, 2))))
        factors.append(SpinField(f"v{v}", float(rng.normal())))
    return FactorGraph([Variable(f"v{i}", 2) for i in range(num_variables)], factors)


def forests():
    for seed in range(12):
        yield f"forest-{seed}", random_forest(seed, 8, zero_fraction=[0.0, 0.3][seed % 2]), {}
    for seed in range(3):
        yield f"binary-{seed}", binary_tree(seed, 10), {}
    model = random_forest(3, 8, zero_fraction=0.2)
    yield "evidence", model, {"v0": 0, "v5": 0}
    star = [TableFactor(["v0", f"v{i}"], np.arange(6.0).reshape(2, 3) * i) for i in range(1, 6)]
    yield (
        "star",
        FactorGraph([Variable("v0", 2), *(Variable(f"v{i}", 3) for i in range(1, 6))], star),
        {},
    )
    yield (
        "certain",
        FactorGraph(
            [Variable("a", 2), Variable("b", 2), Variable("c", 2)],
            [
                TableFactor.from_values(["a"], [0, 1]),
                SpinCoupling("a", "b", 0.7),
                SpinCoupling("b", "c", -40.0),
            ],
        ),
        {},
    )
    yield "no-variables", FactorGraph([], [TableFactor([], 1.5)]), {}
    yield "no-factors", FactorGraph([Variable("a", 3), Variable("b", 1)], []), {}
    yield "one-state", FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])]), {}
    yield "all-observed", zoo.sprinkler(), {v.name: 0 for v in zoo.sprinkler().variables}


FORESTS = list(forests())


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize(("name", "model", "evidence"), FORESTS, ids=[name for name, *_ in FORESTS])
def test_exact_on_forests(name, model, evidence, damping):
    oracle = Enumeration(model, evidence)
    found = loopy_belief_propagation(model, evidence, damping=damping, tolerance=1e-13)
    assert found.log_partition == pytest.approx(oracle.log_partition(), abs=TOLERANCE)
    expected, marginals = oracle.marginals(), found.marginals()
    assert list(marginals) == list(expected)
    for variable, row in expected.items():
        np.testing.assert_allclose(marginals[variable], row, atol=TOLERANCE)
    for group in found.factor_beliefs():
        for scope, belief in zip(group.scopes.tolist(), group.beliefs, strict=True):
            torch.testing.assert_close(belief, oracle.joint(scope), atol=TOLERANCE, rtol=0)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([0.0, 0.25]))
def test_exact_on_any_forest(seed, num_variables, zero_fraction):
    model = random_forest(
        seed, num_variables, max_arity=4, max_states=3, zero_fraction=zero_fraction
    )
    oracle = Enumeration(model)
    found = loopy_belief_propagation(model, damping=0, tolerance=1e-13)
    assert found.is_converged
    assert found.log_partition == pytest.approx(oracle.log_partition(), abs=TOLERANCE)
    for variable, row in oracle.marginals().items():
        np.testing.assert_allclose(found.marginals()[variable], row, atol=TOLERANCE)


def furthest(model, marginals):
    """Largest total-variation distance of a marginal from the exact one."""
    expected = exact(model).marginals()
    return max(0.5 * abs(row - marginals[name]).sum() for name, row in expected.items())


@pytest.mark.parametrize(
    ("model", "distance", "gap"),
    [
        (zoo.ising_lattice(side=5, sigma=0.1, seed=0), 0.003, 0.015),
        (zoo.ising_lattice(side=5, sigma=0.2, seed=0), 0.05, 0.1),
        (zoo.ising_torus(side=4, sigma=0.1, seed=0), 0.01, 0.05),
        (zoo.potts_lattice(side=4, states=3, sigma=0.3, seed=0), 0.01, 0.02),
        (zoo.factor_lattice(side=4, sigma=0.2, seed=0), 0.05, 0.1),
    ],
    ids=["ising", "stronger", "torus", "potts", "neural"],
)
def test_close_where_couplings_are_weak(model, distance, gap):
    found = loopy_belief_propagation(model)
    assert found.is_converged
    assert furthest(model, found.marginals()) < distance
    assert abs(found.log_partition - exact(model).log_partition()) < gap


def test_the_estimate_is_not_exact_on_cycles():
    """So that the bounds above mean something: a frustrated ring of three."""
    names = ["a", "b", "c"]
    couplings = [SpinCoupling(u, v, -1.0) for u, v in itertools.combinations(names, 2)]
    model = FactorGraph([Variable(name, 2) for name in names], [*couplings, SpinField("a", 0.5)])
    found = loopy_belief_propagation(model, damping=0.5, num_iterations=2000)
    assert found.is_converged
    assert abs(found.log_partition - exact(model).log_partition()) > 0.1


def test_evidence_is_conditioning():
    model = zoo.ising_lattice(side=4, sigma=0.3, seed=2)
    names = [variable.name for variable in model.variables]
    evidence = {names[5]: 1, names[10]: 0}
    given_it = loopy_belief_propagation(model, evidence, tolerance=1e-12)
    reduced = loopy_belief_propagation(model.condition(evidence), tolerance=1e-12)
    assert given_it.log_partition == pytest.approx(reduced.log_partition, abs=1e-10)
    marginals = given_it.marginals()
    assert list(marginals) == names
    assert marginals[names[5]].tolist() == [0.0, 1.0]
    assert marginals[names[10]].tolist() == [1.0, 0.0]
    for name, row in reduced.marginals().items():
        np.testing.assert_allclose(marginals[name], row, atol=1e-10)
