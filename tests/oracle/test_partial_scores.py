"""Partial log scores against the plain definition: one factor, one step at a time."""

import pytest
import torch

from deltaai.models import FactorGraph, TableFactor, Variable, partial_log_scores, zoo


def mixed_model():
    generator = torch.Generator().manual_seed(0)

    def table(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    variables = [Variable("a", 2), Variable("b", 3), Variable("c", 2), Variable("alone", 4)]
    factors = [
        TableFactor(["a", "b"], table(2, 3)),
        TableFactor(["c", "b", "a"], table(2, 3, 2)),
        TableFactor(["b"], table(3)),
        TableFactor([], table()),
    ]
    return FactorGraph(variables, factors)


MODELS = {
    "ising": lambda: zoo.ising_lattice(side=3, sigma=0.5, seed=0),
    "neural": lambda: zoo.factor_lattice(side=3, sigma=0.5, seed=0),
    "mixed tables": mixed_model,
    "potts": lambda: zoo.potts_lattice(side=2, states=3, sigma=0.5, seed=0),
}


def drawn(model, batch=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(model.num_variables, batch, generator=generator)
    columns = (chance * model.num_states[:, None]).long()
    orders = torch.rand(model.num_variables, batch, generator=generator).argsort(0)
    return columns, orders.argsort(0)


def factor_value(factor, states, is_set):
    """One log-factor of a partial state, missing variables as zeros."""
    if isinstance(factor, TableFactor):
        table = factor.log_table
        for known, value in zip(is_set, states, strict=True):
            table = table[value] if known else table.mean(0)
        return float(table)
    if not hasattr(factor, "module"):
        spins = [2 * v - 1 if known else 0 for v, known in zip(states, is_set, strict=True)]
        strength = factor.strength
        return float(strength) * float(torch.tensor(spins).prod())
    features = [2.0 * v - 1 if known else 0.0 for v, known in zip(states, is_set, strict=True)]
    inputs = torch.tensor([features], dtype=torch.float64)
    return float(factor.module.double()(inputs).detach().reshape(()))


@pytest.mark.parametrize("kind", ["completed", "zero-filled"])
@pytest.mark.parametrize("name", MODELS)
def test_every_step_is_the_sum_over_factors(name, kind):
    model = MODELS[name]()
    columns, ranks = drawn(model)
    found = partial_log_scores(model, columns, ranks, kind)
    assert found.shape == (model.num_variables + 1, columns.shape[1])
    for sample in range(columns.shape[1]):
        for step in range(model.num_variables + 1):
            total = 0.0
            for factor in model.factors:
                scope = [model.index(variable) for variable in factor.scope]
                is_set = [int(ranks[v, sample]) < step for v in scope]
                if kind == "completed" and not all(is_set):
                    continue
                states = [int(columns[v, sample]) for v in scope]
                total += factor_value(factor, states, is_set)
            assert float(found[step, sample]) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("kind", ["completed", "zero-filled"])
@pytest.mark.parametrize("name", MODELS)
def test_the_last_is_the_log_score(name, kind):
    model = MODELS[name]()
    columns, ranks = drawn(model, batch=20)
    with torch.no_grad():
        found = partial_log_scores(model, columns, ranks, kind)[-1]
        torch.testing.assert_close(found, model.log_score(columns.T), rtol=1e-9, atol=1e-9)


def test_both_kinds_agree_for_spins():
    model = MODELS["ising"]()
    columns, ranks = drawn(model)
    torch.testing.assert_close(
        partial_log_scores(model, columns, ranks, "completed"),
        partial_log_scores(model, columns, ranks, "zero-filled"),
    )
