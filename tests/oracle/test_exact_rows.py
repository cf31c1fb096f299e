"""Many rows at once against enumeration and against one row at a time."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from deltaai.errors import (
    EvidenceError,
    GraphError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    StateError,
)
from deltaai.exact import Enumeration, ExactInference
from deltaai.exact.rows.engine import RowInference
from deltaai.graphs import eliminate, min_weight_order
from deltaai.models import FactorGraph, TableFactor, Variable, zoo

TOLERANCE = 1e-9


def random_rows(model, number, seed, always=(), shares=(0.0, 0.3, 0.7, 1.0)):
    """Rows with none, some and all variables observed, at uniform states."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, model.num_states.numpy(), size=(number, model.num_variables))
    share = np.array([shares[row % len(shares)] for row in range(number)])
    is_known = rng.random(states.shape) < share[:, None]
    is_known[:, list(always)] = True
    return torch.from_numpy(np.where(is_known, states, -1))


def one_by_one(model, rows, engine):
    """Log Z and marginals of each row from an engine that takes one row."""
    log_partition, marginals = [], []
    for row in rows.tolist():
        evidence = {model.variables[v].name: k for v, k in enumerate(row) if k >= 0}
        try:
            oracle = engine(model, evidence)
            log_partition.append(oracle.log_partition())
            found = list(oracle.marginals().values())
            marginals.append(np.concatenate([np.zeros(0), *found]))
        except ImpossibleEvidenceError:
            log_partition.append(-math.inf)
            marginals.append(np.full(int(model.state_offsets[-1]), math.nan))
    return torch.tensor(log_partition, dtype=torch.float64), torch.from_numpy(np.stack(marginals))


def assert_same(answers, expected):
    close = {"atol": TOLERANCE, "rtol": 0, "equal_nan": True}
    torch.testing.assert_close(answers.log_partition, expected[0], **close)
    torch.testing.assert_close(answers.marginals, expected[1], **close)


def hub():
    """A variable with many children: messages join two at a time."""
    rng = np.random.default_rng(0)
    variables = [Variable(f"v{i}", 3) for i in range(9)]
    factors = [TableFactor(["v0", f"v{i}"], rng.normal(size=(3, 3))) for i in range(1, 9)]
    factors += [TableFactor(["v1", "v2", "v0"], rng.normal(size=(3, 3, 3)))]
    return FactorGraph(variables, factors)


def cases():
    """Models of many kinds: mixed numbers of states (also one), zeros, disconnected parts."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        yield (
            f"random-{seed}",
            zoo.random_factor_graph(
                num_variables=int(rng.integers(1, 9)),
                num_factors=int(rng.integers(0, 12)),
                max_arity=5,
                max_states=4,
                zero_fraction=[0.0, 0.15, 0.3][seed % 3],
                scale=[0.5, 3.0][seed % 2],
                seed=seed,
            ),
        )
    yield "one-state", FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])])
    yield "no-factors", FactorGraph([Variable("a", 3), Variable("b", 2)], [])
    yield "no-variables", FactorGraph([], [TableFactor([], 1.5)])
    contradicting = [TableFactor(["a"], [0.0, -math.inf]), TableFactor(["a"], [-math.inf, 0.0])]
    yield "all-zero", FactorGraph([Variable("a", 2), Variable("b", 2)], contradicting)
    yield "network", zoo.sprinkler()
    yield "bayesian", zoo.random_bayesian_network(8, seed=1)
    yield "ising", zoo.ising_lattice(side=3, sigma=0.7, seed=1)
    yield "torus", zoo.ising_torus(side=3, sigma=0.7, seed=1)
    yield "neural", zoo.factor_lattice(side=3, sigma=1.0, seed=1)
    yield "potts", zoo.potts_lattice(side=3, states=3, sigma=0.8, seed=1)
    yield "hub", hub()


CASES = list(cases())


@pytest.fixture(params=CASES, ids=[name for name, _ in CASES])
def model(request):
    return request.param[1]


def test_rows_against_enumeration(model):
    rows = random_rows(model, 16, seed=0)
    assert_same(RowInference(model).answer(rows), one_by_one(model, rows, Enumeration))


def test_rows_with_variables_that_are_always_observed(model):
    rng = np.random.default_rng(1)
    number = (model.num_variables + 1) // 2
    always = sorted(rng.permutation(model.num_variables)[:number].tolist())
    rows = random_rows(model, 24, seed=1, always=always)
    answers = RowInference(model, always).answer(rows)
    assert_same(answers, one_by_one(model, rows, Enumeration))


def test_everything_always_observed(model):
    always = tuple(range(model.num_variables))
    rows = random_rows(model, 6, seed=2, always=always)
    answers = RowInference(model, always).answer(rows)
    assert_same(answers, one_by_one(model, rows, Enumeration))


@pytest.mark.parametrize(("side", "sigma"), [(5, 0.5), (7, 0.5), (7, 2.0)])
def test_wider_models_against_one_row_at_a_time(side, sigma):
    """Sigma 2 needs every scale taken out, but no row needs log space."""
    model = zoo.ising_lattice(side=side, sigma=sigma, seed=0)
    rows = random_rows(model, 20, seed=3, shares=(0.05, 0.2))
    answers = RowInference(model).answer(rows)
    assert not answers.is_in_log_space.any()
    assert_same(answers, one_by_one(model, rows, ExactInference))


@pytest.mark.parametrize("scale", [10.0, 50.0, 400.0])
@pytest.mark.parametrize("always", [(), (2, 7)])
def test_peaked_models(scale, always):
    model = zoo.ising_lattice(side=4, sigma=scale, seed=0)
    rows = random_rows(model, 24, seed=4, always=always)
    answers = RowInference(model, always).answer(rows)
    assert_same(answers, one_by_one(model, rows, ExactInference))


@pytest.mark.parametrize("seed", range(6))
def test_peaked_tables_with_zeros(seed):
    """Log-factors of up to some 400 either way; evidence may leave only tiny entries."""
    base = zoo.random_factor_graph(
        7, 10, max_arity=3, max_states=3, zero_fraction=0.1, scale=1.0, seed=seed
    )
    rng = np.random.default_rng(seed)
    factors = []
    for factor in base.factors:
        table = torch.as_tensor(factor.log_table).numpy()
        spread = rng.uniform(-400, 400, size=table.shape)
        factors.append(TableFactor(factor.scope, np.where(np.isfinite(table), spread, -math.inf)))
    model = FactorGraph(base.variables, factors)
    rows = random_rows(model, 40, seed=seed)
    assert_same(RowInference(model).answer(rows), one_by_one(model, rows, Enumeration))


def test_evidence_that_leaves_only_what_floating_point_lost_is_not_impossible():
    """exp(-900) is zero in floating point, and all that the evidence allows."""
    first = TableFactor(["a", "b"], [[0.0, -900.0], [-900.0, -1000.0]])
    second = TableFactor(["b", "c"], [[0.0, -900.0], [0.0, -800.0]])
    model = FactorGraph([Variable(name, 2) for name in "abc"], [first, second])
    rows = torch.tensor([[0, 1, 1], [1, -1, 1], [-1, -1, -1], [1, 1, -1]])
    answers = RowInference(model).answer(rows)
    assert_same(answers, one_by_one(model, rows, Enumeration))
    assert answers.is_in_log_space.tolist()[0]


@pytest.mark.parametrize(("early", "late"), [(-800.0, -600.0), (-740.0, -365.0)])
def test_what_is_lost_early_and_counts_in_the_end_is_noticed(early, late):
    """State one is lost at the start, wholly or in its digits; what is left looks sound."""
    number = 17
    names = [f"v{i}" for i in range(number)]
    factors = [TableFactor([a, b], [[0.0, -5e3], [-5e3, 0.0]]) for a, b in pairwise(names)]
    factors += [TableFactor(["v0"], [0.0, early])]
    factors += [TableFactor([name], [late, 0.0]) for name in ("v8", "v16")]
    model = FactorGraph([Variable(name, 2) for name in names], factors)
    elimination = eliminate(model.markov_graph(), range(number))
    rows = torch.full((1, number), -1)
    answers = RowInference(model, elimination=elimination).answer(rows)
    assert answers.is_in_log_space.all()
    assert float(answers.marginals[0, 1]) == pytest.approx(1 / (1 + math.exp(2 * late - early)))
    assert_same(answers, one_by_one(model, rows, ExactInference))


def test_long_chains_neither_overflow_nor_underflow():
    """Scales must be taken out now and then, even where no single message needs it."""
    number = 400
    variables = [Variable(f"v{i}", 3) for i in range(number)]
    rng = np.random.default_rng(0)
    factors = [
        TableFactor([f"v{i}", f"v{i + 1}"], rng.normal(size=(3, 3)) + rng.choice([-50.0, 50.0]))
        for i in range(number - 1)
    ]
    model = FactorGraph(variables, factors)
    rows = random_rows(model, 3, seed=5, shares=(0.0, 0.1))
    answers = RowInference(model).answer(rows)
    assert not answers.is_in_log_space.any()
    expected = one_by_one(model, rows, ExactInference)
    torch.testing.assert_close(answers.log_partition, expected[0], atol=0, rtol=1e-12)
    torch.testing.assert_close(answers.marginals, expected[1], atol=TOLERANCE, rtol=0)


def test_rows_with_zeros_stay_on_the_fast_way_where_nothing_is_lost():
    model = zoo.random_factor_graph(8, 10, max_arity=3, zero_fraction=0.2, seed=3)
    rows = random_rows(model, 40, seed=6)
    answers = RowInference(model).answer(rows)
    is_impossible = answers.log_partition == -math.inf
    assert bool((answers.is_in_log_space == is_impossible).all())
    assert bool(answers.marginals[is_impossible].isnan().all())
    assert not answers.marginals[~is_impossible].isnan().any()


def test_chunks_give_the_answer_of_one_chunk():
    model = zoo.ising_lattice(side=4, sigma=0.7, seed=2)
    rows = random_rows(model, 101, seed=7)
    whole = RowInference(model)
    assert whole.rows_per_chunk >= 101
    least = whole.cost.peak_bytes
    while True:  # the least memory that one row needs
        try:
            small = RowInference(model, memory_limit=least)
        except MemoryLimitError as error:
            least = error.predicted_bytes
            small = RowInference(model, memory_limit=least)
            break
        least //= 2
    assert small.rows_per_chunk == 1
    assert small.cost.peak_bytes <= least
    told = []
    found = small.answer(rows, progress=told.append)
    assert_same(found, (whole.answer(rows).log_partition, whole.answer(rows).marginals))
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_one_row_and_no_rows():
    model = zoo.sprinkler()
    engine = RowInference(model)
    rows = random_rows(model, 1, seed=8, shares=(0.5,))
    assert_same(engine.answer(rows), one_by_one(model, rows, Enumeration))
    nothing = engine.answer(rows[:0])
    assert nothing.log_partition.shape == (0,)
    assert nothing.marginals.shape == (0, int(model.state_offsets[-1]))
    assert_same(engine.answer(rows.to(torch.int8)), one_by_one(model, rows, Enumeration))


def test_a_given_order_is_used():
    model = zoo.potts_lattice(side=3, states=3, sigma=0.5, seed=0)
    graph = model.markov_graph()
    rng = np.random.default_rng(0)
    rows = random_rows(model, 4, seed=9)
    for _ in range(3):
        elimination = eliminate(graph, rng.permutation(9).tolist())
        engine = RowInference(model, elimination=elimination)
        assert engine.elimination.order == elimination.order
        assert_same(engine.answer(rows), one_by_one(model, rows, Enumeration))
    order = min_weight_order(zoo.sprinkler().markov_graph(), [2] * 4)
    with pytest.raises(GraphError):
        RowInference(model, elimination=eliminate(zoo.sprinkler().markov_graph(), order))


def test_always_observed_variables_make_the_model_narrower():
    model = zoo.ising_lattice(side=6, sigma=0.5, seed=0)
    column = tuple(range(3, 36, 6))
    assert RowInference(model, column).cost.width < RowInference(model).cost.width


def test_memory_is_refused_before_anything_is_allocated():
    with pytest.raises(MemoryLimitError, match="memory limit"):
        RowInference(zoo.ising_lattice(side=40, sigma=0.5, seed=0), memory_limit=2**30)


def test_bad_rows_are_refused():
    model = zoo.sprinkler()
    engine = RowInference(model, always_observed=(3,))
    with pytest.raises(StateError, match="the state 2"):
        engine.answer(torch.tensor([[0, 0, 0, 2]]))
    with pytest.raises(StateError, match="unknown variables are -1"):
        engine.answer(torch.tensor([[0, -2, 0, 1]]))
    with pytest.raises(StateError, match="shape"):
        engine.answer(torch.tensor([[0, 1, 0]]))
    with pytest.raises(EvidenceError, match="row 2 does not observe 'wet_grass'"):
        engine.answer(torch.tensor([[0, -1, 0, 1], [0, 0, 0, -1]]))
    with pytest.raises(EvidenceError, match="variable 4"):
        RowInference(model, always_observed=(4,))
