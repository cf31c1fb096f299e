"""Tables from rows with missing cells, against expectation maximisation by enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.budget import Budget
from deltaai.exact import RowInference, exact
from deltaai.exact.parts import sums
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.chow_liu import chow_liu_parents, mutual_information, pair_counts
from deltaai.learning.tables.expectation import (
    CaseCounter,
    empty_network,
    from_known,
    maximised,
    shaken,
    steps_of,
)
from deltaai.learning.tables.islands import Islands
from deltaai.learning.tables.prior import Prior
from deltaai.models import Variable, zoo
from factor_graphs import all_states

SPRINKLER = zoo.sprinkler()
PARENTS = [(), (0,), (0,), (1, 2)]


def rows_of(model, number, share, seed=0):
    states = exact(model).sample(number, torch.Generator().manual_seed(seed))
    gone = torch.rand(states.shape, generator=torch.Generator().manual_seed(seed + 1)) < share
    return states.masked_fill(gone, -1).numpy().astype(np.int8)


def counter_of(rows, model):
    return CaseCounter(Cases.of(rows, model.variables), Budget.of())


def by_enumeration(model, rows, prior):
    """One step, row by row over all joint states: the objective before it, and tables after."""
    states = all_states(model).numpy()
    probabilities = model.log_score(torch.from_numpy(states)).exp().numpy()
    counts = [np.zeros([2] * (len(parents) + 1)) for parents in PARENTS]
    objective = 0.0
    for row in rows:
        fits = ((states == row) | (row < 0)).all(1)
        weights = np.where(fits, probabilities, 0.0)
        objective += math.log(weights.sum())
        for child, parents in enumerate(PARENTS):
            for state, weight in zip(states, weights / weights.sum(), strict=True):
                counts[child][tuple(state[[*parents, child]])] += weight
    tables = []
    for table in counts:
        objective_table = table + prior / table.size
        tables.append(objective_table / objective_table.sum(-1, keepdims=True))
    return objective, tables


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_steps_are_those_of_enumeration(prior):
    rows = rows_of(SPRINKLER, 60, 0.4)
    model = from_known(
        empty_network(SPRINKLER.variables, PARENTS), Cases.of(rows, SPRINKLER.variables), Prior(1.0)
    )
    steps = steps_of(counter_of(rows, model), model, Prior(prior))
    for standing in itertools.islice(steps, 3):
        objective, tables = by_enumeration(model, rows, prior)
        assert standing.log_likelihood * len(rows) == pytest.approx(objective)
        for factor in standing.model.factors:
            wanted = tables[SPRINKLER.index(factor.child)]
            np.testing.assert_allclose(factor.log_table.exp(), wanted, atol=1e-12)
        model = standing.model


@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_no_step_lowers_the_objective(prior, share):
    rows = rows_of(dai.example("asia"), 300, share)
    model = dai.example("asia")
    parents = [[model.index(p) for p in f.parents] for f in model.factors]
    order = [f.child for f in model.factors]
    by_child = {model.index(c): p for c, p in zip(order, parents, strict=True)}
    start = empty_network(model.variables, [by_child[v] for v in range(model.num_variables)])
    start = from_known(start, Cases.of(rows, model.variables), Prior(1.0))
    found = [
        s.objective
        for s in itertools.islice(steps_of(counter_of(rows, start), start, Prior(prior)), 25)
    ]
    assert all(after >= before - 1e-12 for before, after in itertools.pairwise(found))
    assert found[-1] > found[0]


def test_complete_rows_are_counted():
    rows = rows_of(SPRINKLER, 500, 0.0)
    names = [v.name for v in SPRINKLER.variables]
    data = [dict(zip(names, map(str, row.tolist()), strict=True)) for row in rows]
    learned = dai.learn(
        data, {n: [names[p] for p in PARENTS[k]] for k, n in enumerate(names)}, prior=0, held_out=0
    )
    assert learned.report.steps == 1
    wet = next(f for f in learned.factors if f.child == "wet_grass")
    for s, r in itertools.product(range(2), repeat=2):
        same = (rows[:, 1] == s) & (rows[:, 2] == r)
        wanted = np.mean(rows[same, 3]) if same.any() else 0.5
        assert float(wet.log_table[s, r, 1].exp()) == pytest.approx(wanted)
    x = torch.from_numpy(rows.astype(np.int64))
    assert float(learned.log_score(x).mean()) == pytest.approx(learned.report.log_likelihood)


def test_missing_cells_are_filled_in_and_not_dropped():
    """Cells that are missing because of what others show: dropping rows would be biased."""
    generator = np.random.default_rng(0)
    rain = generator.random(4000) < 0.3
    wet = generator.random(4000) < np.where(rain, 0.9, 0.2)
    is_gone = wet & (generator.random(4000) < 0.7)  # rain is rarely looked for when it is wet
    data = [
        {"rain": "" if gone else str(bool(r)), "wet": str(bool(w))}
        for r, w, gone in zip(rain, wet, is_gone, strict=True)
    ]
    learned = dai.learn(data, [("rain", "wet")], held_out=0, steps=2000, tolerance=1e-9)
    chance = dai.query(learned, of=["rain"]).marginals["rain"][1]
    only_known = np.mean(rain[~is_gone])
    assert abs(chance - 0.3) < 0.03
    assert abs(only_known - 0.3) > 0.1


def test_a_latent_class_is_found():
    truth = empty_network(
        [Variable("class", 2), *(Variable(f"x{k}") for k in range(5))],
        [(), (0,), (0,), (0,), (0,), (0,)],
    )
    truth = shaken(truth, 0.95, torch.Generator().manual_seed(3))
    rows = rows_of(truth, 3000, 0.0)[:, 1:]
    data = [{f"x{k}": str(v) for k, v in enumerate(row)} for row in rows.tolist()]
    edges = [("class", f"x{k}") for k in range(5)]
    learned = dai.learn(data, edges, latent={"class": 2}, seed=1, steps=400)
    apart = dai.learn(data, "independent")
    held_out = learned.report.held_out_log_likelihood
    assert held_out > apart.report.held_out_log_likelihood + 0.02
    # No better than the truth on its own rows than the number of parameters explains.
    full = np.column_stack([np.full(len(rows), -1), rows])
    best = counter_of(full, truth).log_likelihood(truth)
    assert best - 0.002 < learned.report.log_likelihood < best + 11 / len(rows)


def test_the_tree_of_a_tree_is_found():
    parents = [(), (0,), (0,), (1,), (1,), (2,)]
    variables = [Variable(f"x{k}", 3 if k == 2 else 2) for k in range(6)]
    truth = shaken(empty_network(variables, parents), 0.98, torch.Generator().manual_seed(5))
    found = chow_liu_parents(rows_of(truth, 20_000, 0.1), [2, 2, 3, 2, 2, 2])
    edges = {frozenset((v, p[0])) for v, p in enumerate(found) if p}
    assert edges == {frozenset((v, p[0])) for v, p in enumerate(parents) if p}


def test_mutual_information_is_that_of_the_definition():
    rows = rows_of(SPRINKLER, 400, 0.2)
    found = mutual_information(pair_counts(rows, [2, 2, 2, 2]), [2, 2, 2, 2])
    for a, b in itertools.combinations(range(4), 2):
        both = rows[(rows[:, a] >= 0) & (rows[:, b] >= 0)][:, [a, b]]
        joint = np.array([[np.mean((both == (i, j)).all(1)) for j in (0, 1)] for i in (0, 1)])
        apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        wanted = np.sum(joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0]))
        assert found[a, b] == pytest.approx(wanted, abs=1e-12)
        assert found[b, a] == pytest.approx(wanted, abs=1e-12)


def test_nothing_counted_is_uniform():
    model = empty_network(SPRINKLER.variables, PARENTS)
    counts = [torch.zeros(g.num_factors, *g.sizes).double() for g in model.groups]
    for factor in maximised(model, counts, Prior()).factors:
        np.testing.assert_allclose(factor.log_table.exp(), 0.5)


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("name", ["asia", "random", "large tables"])
def test_islands_count_what_the_whole_tree_counts(name, share, is_cut, monkeypatch):
    if name == "asia":
        model = dai.example("asia")
    else:
        sizes = [1 + k % 4 + (8 if name == "large tables" else 0) for k in range(9)]
        variables = [Variable(f"x{k}", size) for k, size in enumerate(sizes)]
        parents = [(), (0,), (0, 1), (1, 2), (2,), (3, 4), (), (5, 6), (4, 7)]
        model = shaken(empty_network(variables, parents), 0.9, torch.Generator().manual_seed(0))
    if is_cut:  # a few rows, and a few tables, at a time
        monkeypatch.setattr(sums, "_MOST_ENTRIES", 40)
        monkeypatch.setattr(sums, "_GROUP_ENTRIES", 20)
    cases = Cases.of(rows_of(model, 80, share), model.variables)
    found = Islands(model, cases, Budget.of()).counted(model)
    engine = RowInference(model)
    wanted = engine.expected_counts(torch.from_numpy(cases.rows.astype(np.int64)), cases.weights)
    total = float((wanted.log_partition * cases.weights).sum())
    assert found.log_likelihood == pytest.approx(total)
    for mine, other in zip(found.by_group, wanted.by_group, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


def test_a_wide_network_is_learned_from_rows_with_few_missing_cells():
    """30 parents in two layers: too wide for a tree of cliques within the limit."""
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(24)]
    frame = [{n: str(rng.integers(2)) for n in names} for _ in range(200)]
    for row in frame:
        row[names[rng.integers(24)]] = "?"
    edges = [(a, b) for k, b in enumerate(names[12:]) for a in (names[k], names[(k + 5) % 12])]
    edges += list(itertools.pairwise(names[:12]))
    roomy = dai.learn(frame, edges, held_out=0)
    tight = dai.learn(frame, edges, held_out=0, memory_limit="60KB")
    for mine, other in zip(tight.factors, roomy.factors, strict=True):
        torch.testing.assert_close(mine.log_table, other.log_table)
