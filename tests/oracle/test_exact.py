"""Elimination against enumeration: log Z, marginals, most likely state, conditionals."""

import itertools
import math

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError, GraphError, ImpossibleEvidenceError, MemoryLimitError
from deltaai.exact import Enumeration, ExactInference, exact, exact_conditionals
from deltaai.graphs import UndirectedGraph, chordal_completion, eliminate, random_dag
from deltaai.models import FactorGraph, SpinField, TableFactor, Variable, zoo
from deltaai.models.spin_group import SpinGroup

TOLERANCE = 1e-9


def random_cases():
    """Models of many kinds: mixed cardinalities, arity up to 5, zeros, evidence, disconnected."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        model = zoo.random_factor_graph(
            num_variables=int(rng.integers(1, 8)),
            num_factors=int(rng.integers(0, 10)),
            max_arity=5,
            max_states=4,
            zero_fraction=[0.0, 0.15, 0.3][seed % 3],
            scale=[0.5, 3.0][seed % 2],
            seed=seed,
        )
        yield f"random-{seed}", model, {}
        possible = Enumeration(model)
        state, _ = possible.map()
        observed = rng.permutation(model.num_variables)[: rng.integers(0, model.num_variables + 1)]
        yield (
            f"random-{seed}-evidence",
            model,
            {model.variables[v].name: int(state[v]) for v in observed.tolist()},
        )
    yield "one-variable", FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]), {}
    yield "one-state", FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])]), {}
    yield "no-factors", FactorGraph([Variable("a", 3), Variable("b", 2)], []), {}
    yield "no-variables", FactorGraph([], [TableFactor([], 1.5)]), {}
    yield "all-observed", zoo.sprinkler(), {v.name: 0 for v in zoo.sprinkler().variables}
    yield "network", zoo.sprinkler(), {"wet_grass": "yes"}
    yield "ising", zoo.ising_lattice(side=3, sigma=0.7, seed=1), {}
    yield "torus", zoo.ising_torus(side=3, sigma=0.7, seed=1), {}
    yield "neural", zoo.factor_lattice(side=3, sigma=1.0, seed=1), {}
    yield "potts", zoo.potts_lattice(side=2, states=4, sigma=0.8, seed=1), {}


CASES = list(random_cases())


@pytest.fixture(params=CASES, ids=[name for name, _, _ in CASES])
def case(request):
    _, model, evidence = request.param
    return model, evidence, Enumeration(model, evidence), ExactInference(model, evidence)


def test_log_partition(case):
    _, _, oracle, engine = case
    assert engine.log_partition() == pytest.approx(oracle.log_partition(), abs=TOLERANCE)


def test_marginals(case):
    _, _, oracle, engine = case
    expected, found = oracle.marginals(), engine.marginals()
    assert list(found) == list(expected)
    for name, row in expected.items():
        np.testing.assert_allclose(found[name], row, atol=TOLERANCE)


def test_clique_marginals(case):
    model, _, oracle, engine = case
    covered = set()
    for names, table in engine.clique_marginals():
        expected = oracle.joint([model.index(name) for name in names]).numpy()
        np.testing.assert_allclose(table, expected, atol=TOLERANCE)
        covered.update(names)
    assert covered == {model.variables[v].name for v in engine.free}


def test_most_likely_state(case):
    model, _, oracle, engine = case
    best = engine.map()
    assert best.log_score == pytest.approx(oracle.map()[1], abs=TOLERANCE)
    assert float(model.log_score(best.state[None])) == pytest.approx(best.log_score, abs=TOLERANCE)
    assert [best.labels[v.name] for v in model.variables] == [
        v.states[k] for v, k in zip(model.variables, best.state.tolist(), strict=True)
    ]


def test_log_prob_and_samples(case):
    model, evidence, oracle, engine = case
    found = engine.log_prob(oracle.states).exp()
    torch.testing.assert_close(found, oracle.probabilities(), atol=TOLERANCE, rtol=0)
    x = engine.sample(50, torch.Generator().manual_seed(0))
    assert x.shape == (50, model.num_variables)
    assert bool(torch.isfinite(engine.log_prob(x)).all())
    for name, value in evidence.items():
        index = model.variables[model.index(name)].index_of(value)
        assert bool((x[:, model.index(name)] == index).all())


def test_conditionals_of_random_dags_multiply_back_to_the_model(case):
    model, evidence, oracle, _ = case
    reduced = model.condition(evidence)
    graph = chordal_completion(reduced.markov_graph())
    kept = [model.index(variable.name) for variable in reduced.variables]
    states = oracle.states[:, kept]
    for seed in range(3):
        dag = random_dag(graph, np.random.default_rng(seed))
        product = torch.ones(len(states), dtype=torch.float64)
        for variable, table in enumerate(exact_conditionals(reduced, dag)):
            torch.testing.assert_close(table.sum(-1), torch.ones(table.shape[:-1]).double())
            product *= table[tuple(states[:, [*dag.parents[variable], variable]].T)]
        torch.testing.assert_close(product, oracle.probabilities(), atol=TOLERANCE, rtol=0)


def test_conditionals_equal_those_of_the_oracle_one_by_one():
    model = zoo.random_factor_graph(6, 8, max_arity=3, max_states=3, min_states=2, seed=5)
    oracle = Enumeration(model)
    graph = chordal_completion(model.markov_graph())
    dag = random_dag(graph, np.random.default_rng(0))
    for variable, table in enumerate(exact_conditionals(model, dag)):
        joint = oracle.joint([*dag.parents[variable], variable])
        torch.testing.assert_close(table, joint / joint.sum(-1, keepdim=True))


def test_conditionals_accept_a_dag_with_more_edges_than_needed():
    model = zoo.ising_ladder(num_variables=5, sigma=0.5, seed=0)
    complete = UndirectedGraph.from_edges(5, list(itertools.combinations(range(5), 2)))
    dag = random_dag(chordal_completion(complete), np.random.default_rng(3))
    oracle = Enumeration(model)
    product = torch.ones(32, dtype=torch.float64)
    for variable, table in enumerate(exact_conditionals(model, dag)):
        assert table.ndim == len(dag.parents[variable]) + 1
        product *= table[tuple(oracle.states[:, [*dag.parents[variable], variable]].T)]
    torch.testing.assert_close(product, oracle.probabilities())


def test_conditionals_refuse_a_dag_that_is_no_i_map():
    model = zoo.ising_ladder(num_variables=4, sigma=0.5, seed=0)
    path = chordal_completion(UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3)]))
    with pytest.raises(GraphError, match="no I-map"):
        exact_conditionals(model, random_dag(path, np.random.default_rng(0)))


def test_every_elimination_order_gives_the_same_answer():
    model = zoo.random_factor_graph(6, 8, max_arity=3, max_states=3, min_states=2, seed=2)
    expected = Enumeration(model).log_partition()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(6).tolist()
        elimination = eliminate(model.markov_graph(), order)
        engine = ExactInference(model, elimination=elimination)
        assert engine.log_partition() == pytest.approx(expected, abs=TOLERANCE)


def test_extreme_scores_neither_overflow_nor_vanish():
    """Scores far outside the range of floating-point numbers are fine as logarithms."""
    for scale in (2000.0, -2000.0):
        model = FactorGraph(
            [Variable("a", 2), Variable("b", 2)],
            [
                TableFactor(["a", "b"], [[scale, scale + 1], [scale, -math.inf]]),
                SpinField("a", 1.0),
            ],
        )
        oracle, engine = Enumeration(model), exact(model)
        assert engine.log_partition() == pytest.approx(oracle.log_partition(), abs=TOLERANCE)
        for name, row in oracle.marginals().items():
            np.testing.assert_allclose(engine.marginals()[name], row, atol=TOLERANCE)


def test_a_contradiction_between_factors_is_named():
    """Each factor alone is possible; together they are not."""
    model = FactorGraph(
        [Variable("a", 2), Variable("b", 2)],
        [
            TableFactor.from_values(["a", "b"], [[1, 0], [0, 1]]),
            TableFactor.from_values(["a", "b"], [[0, 1], [1, 0]]),
        ],
    )
    for question in ("log_partition", "marginals", "map"):
        with pytest.raises(ImpossibleEvidenceError, match="factors contradict"):
            getattr(exact(model), question)()
    with pytest.raises(ImpossibleEvidenceError):
        exact(model).sample(1)


def test_impossible_evidence_is_named():
    model = FactorGraph(
        [Variable("a", 2), Variable("b", 2), Variable("c", 2)],
        [
            TableFactor.from_values(["a", "b"], [[1, 0], [0, 1]]),
            TableFactor.from_values(["b", "c"], [[1, 0], [0, 1]]),
        ],
    )
    with pytest.raises(ImpossibleEvidenceError, match="a=0, b=1 is impossible"):
        exact(model, {"a": 0, "b": 1})
    with pytest.raises(ImpossibleEvidenceError, match="evidence has probability zero"):
        exact(model, {"a": 0, "c": 1}).log_partition()


def test_memory_is_refused_before_it_is_taken():
    model = zoo.ising_lattice(side=60, sigma=0.2, seed=0)
    with pytest.raises(MemoryLimitError, match=r"width \d+") as refusal:
        exact(model, memory_limit=10**9)
    error = refusal.value
    assert error.predicted_bytes > error.limit_bytes == 10**9
    assert error.width >= 50
    assert "raise the limit" in str(error)
    small = zoo.ising_lattice(side=4, sigma=0.2, seed=0)
    dag = random_dag(chordal_completion(small.markov_graph()), np.random.default_rng(0))
    with pytest.raises(MemoryLimitError):
        exact_conditionals(small, dag, memory_limit=100)
    with pytest.raises(MemoryLimitError):
        Enumeration(model)


def test_predictions_far_beyond_floating_point_are_still_words():
    """A complete graph of 1200 variables would need 2^1200 entries."""
    pairs = torch.combinations(torch.arange(1200))
    couplings = SpinGroup(torch.arange(len(pairs)), pairs, torch.ones(len(pairs)).double())
    model = FactorGraph.from_groups([Variable(f"v{i}", 2) for i in range(1200)], [couplings])
    with pytest.raises(MemoryLimitError, match=r"e\+35\d GiB"):
        exact(model, memory_limit=10**9)


def test_switching_between_sums_and_maxima_changes_nothing():
    engine = exact(zoo.ising_lattice(side=4, sigma=0.5, seed=3))
    log_partition, best = engine.log_partition(), engine.map().log_score
    assert engine.log_partition() == log_partition
    assert engine.map().log_score == best <= log_partition


def test_negative_number_of_samples_is_refused_and_zero_is_not():
    engine = exact(zoo.sprinkler())
    assert engine.sample(0).shape == (0, 4)
    with pytest.raises(ConfigError, match="-1"):
        engine.sample(-1)


def test_progress_reaches_one():
    seen = []
    engine = ExactInference(zoo.ising_lattice(side=4, sigma=0.5, seed=0), progress=seen.append)
    engine.log_partition()
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)


def test_an_elimination_of_another_model_is_refused():
    order = exact(zoo.ising_lattice(side=2, sigma=0.5, seed=0)).elimination
    with pytest.raises(GraphError, match="over 4 variables, and 9 are to be eliminated"):
        ExactInference(zoo.ising_lattice(side=3, sigma=0.5, seed=0), elimination=order)
