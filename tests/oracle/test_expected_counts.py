"""Expected counts of the joint states of factors' scopes, against enumeration."""

import math

import pytest
import torch

from deltaai.exact import RowInference
from deltaai.models import ConditionalTable, FactorGraph, TableFactor, Variable, zoo
from factor_graphs import all_states

MODELS = {
    "network": zoo.sprinkler(),
    "lattice": zoo.ising_lattice(side=3, sigma=0.7, seed=0),
    "factors": zoo.factor_lattice(side=3, sigma=1.0, seed=0),
    "random": zoo.random_factor_graph(
        num_variables=7, num_factors=12, max_arity=3, max_states=4, scale=1.5, seed=3
    ),
    "peaked": zoo.ising_lattice(side=3, sigma=300.0, seed=0),
    "one state": FactorGraph(
        [Variable("a", 3), Variable("b", 1), Variable("c", 2)],
        [
            TableFactor(["a", "b", "c"], torch.arange(6.0).view(3, 1, 2) / 3),
            TableFactor(["b"], [0.5]),
            TableFactor([], 0.25),
            TableFactor(["c"], [0.0, -math.inf]),
        ],
    ),
}


def by_enumeration(model, rows, weights):
    states = all_states(model)
    scores = model.log_score(states).double()
    counts = [torch.zeros(g.num_factors, *g.sizes, dtype=torch.float64) for g in model.groups]
    totals = []
    for row, weight in zip(rows, weights.tolist(), strict=True):
        fits = ((states == row) | (row < 0)).all(1)
        totals.append(scores[fits].logsumexp(0))
        if totals[-1] == -math.inf:
            continue
        chances = weight * (scores[fits] - totals[-1]).exp()
        for group, table in zip(model.groups, counts, strict=True):
            for number, scope in enumerate(group.scopes.tolist()):
                at = tuple(states[fits][:, v] for v in scope)
                if at:
                    table[number].index_put_(at, chances, accumulate=True)
                else:
                    table[number] += chances.sum()
    return torch.stack(totals), counts


def random_rows(model, number, share, seed=0):
    generator = torch.Generator().manual_seed(seed)
    states = all_states(model)
    possible = states[model.log_score(states).isfinite()]
    rows = possible[torch.randint(len(possible), (number,), generator=generator)]
    return rows.where(torch.rand(rows.shape, generator=generator) < share, -1)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_enumeration(name, share):
    model = MODELS[name]
    rows = random_rows(model, 9, share)
    weights = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = RowInference(model).expected_counts(rows, weights)
    totals, counts = by_enumeration(model, rows, weights)
    torch.testing.assert_close(found.log_partition, totals)
    for mine, wanted in zip(found.by_group, counts, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_variables_that_every_row_observes_are_taken_out(name):
    model = MODELS[name]
    rows = random_rows(model, 9, 0.4)
    rows[:, :2] = random_rows(model, 9, 1.0)[:, :2]
    totals, counts = by_enumeration(model, rows, torch.ones(9))
    possible = totals.isfinite()
    found = RowInference(model, [0, 1]).expected_counts(rows[possible])
    torch.testing.assert_close(found.log_partition, totals[possible])
    for mine, wanted in zip(found.by_group, counts, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-9)


def test_impossible_rows_are_in_no_count_and_spoil_none():
    model = FactorGraph(
        [Variable("a"), Variable("b"), Variable("c")],
        [
            ConditionalTable("a", [], [0.3, 0.7]),
            ConditionalTable("b", ["a"], [[1.0, 0.0], [0.5, 0.5]]),
            ConditionalTable("c", ["b"], [[0.2, 0.8], [0.6, 0.4]]),
        ],
    )
    rows = torch.tensor([[0, -1, 1], [0, 1, -1], [-1, -1, 0], [0, 1, 1]])
    found = RowInference(model).expected_counts(rows)
    totals, counts = by_enumeration(model, rows, torch.ones(4))
    assert found.log_partition.isfinite().tolist() == [True, False, True, False]
    torch.testing.assert_close(found.log_partition, totals)
    for mine, wanted in zip(found.by_group, counts, strict=True):
        torch.testing.assert_close(mine, wanted)
    assert found.by_group[0].sum() == pytest.approx(2)


def test_counts_are_the_slopes_of_log_z():
    model = zoo.factor_lattice(side=3, sigma=1.0, seed=0)
    rows = random_rows(model, 5, 0.3)
    tables = model.groups[0].log_tables().double().clone().requires_grad_()
    names = [variable.name for variable in model.variables]
    scopes = [[names[v] for v in scope] for scope in model.groups[0].scopes.tolist()]
    live = FactorGraph(
        model.variables, [TableFactor(s, t) for s, t in zip(scopes, tables, strict=True)]
    )
    states = all_states(live)
    fits = ((states[:, None] == rows) | (rows < 0)).all(2)
    scores = live.log_score(states)[:, None].where(fits, torch.tensor(-math.inf))
    (slopes,) = torch.autograd.grad(scores.logsumexp(0).sum(), tables)
    found = RowInference(model).expected_counts(rows)
    torch.testing.assert_close(found.by_group[0], slopes)


def test_no_rows_count_nothing():
    found = RowInference(zoo.sprinkler()).expected_counts(torch.zeros(0, 4, dtype=torch.long))
    assert len(found.log_partition) == 0
    assert all(float(table.sum()) == 0 for table in found.by_group)
