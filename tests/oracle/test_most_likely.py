"""The most likely state by search and by toulbar2, against enumeration and exact inference."""

import itertools
import math
import time

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.models import zoo


def random_model(seed, zeros=0.0, num_variables=8):
    """Tables over up to three variables, with a share of zeros and one state that is possible."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=num_variables).tolist()
    variables = [dai.Variable(f"x{n}", size) for n, size in enumerate(sizes)]
    sure = [int(rng.integers(size)) for size in sizes]
    factors = []
    for _ in range(2 * num_variables):
        scope = rng.choice(num_variables, size=int(rng.integers(1, 4)), replace=False).tolist()
        table = 2 * rng.normal(size=[sizes[v] for v in scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        table[tuple(sure[v] for v in scope)] = rng.normal()
        factors.append(dai.TableFactor([f"x{v}" for v in scope], table))
    return dai.FactorGraph(variables, factors)


def best_of(model, evidence):
    sizes = [variable.num_states for variable in model.variables]
    states = torch.tensor(list(itertools.product(*map(range, sizes))))
    for name, state in evidence.items():
        states = states[states[:, model.index(name)] == state]
    scores = model.log_score(states).double()
    return float(scores.max())


@pytest.mark.parametrize("method", ["auto", "search", "toulbar2"])
@pytest.mark.parametrize(("seed", "zeros"), [(0, 0.0), (1, 0.0), (2, 0.3), (3, 0.5), (4, 0.1)])
def test_it_is_the_best_of_all_states(method, seed, zeros):
    model = random_model(seed, zeros)
    found = dai.most_likely(model, method=method)
    best = best_of(model, {})
    assert found.log_score == pytest.approx(best, abs=1e-6)
    assert found.upper >= best - 1e-6
    assert float(model.log_score(found.state[None])) == pytest.approx(found.log_score, abs=1e-9)
    assert [found.labels[v.name] for v in model.variables] == [
        v.states[k] for v, k in zip(model.variables, found.state.tolist(), strict=True)
    ]
    if method != "search":
        assert found.status == "exact"
    given = {"x2": int(found.state[2]), "x5": int(found.state[5])}
    again = dai.most_likely(model, {n: f"#{k}" for n, k in given.items()}, method=method)
    assert again.log_score == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_holds_under_evidence_that_is_unlikely(seed):
    model = random_model(seed)
    best = best_of(model, {"x0": 1, "x7": 0})
    for method in ("search", "toulbar2"):
        found = dai.most_likely(model, {"x0": "#1", "x7": "#0"}, method=method)
        assert found.log_score <= best + 1e-6
        assert found.upper >= best - 1e-6


def test_wide_models_are_solved_by_search_where_messages_are_good():
    lattice = zoo.ising_lattice(side=12, sigma=1.0, seed=0)
    exact, found = dai.most_likely(lattice), dai.most_likely(lattice, method="search")
    assert (exact.status, found.status) == ("exact", "exact")
    assert found.log_score == pytest.approx(exact.log_score)
    torus = zoo.potts_lattice(side=9, states=3, sigma=1.0, seed=1)
    exact, found = dai.most_likely(torus), dai.most_likely(torus, method="search")
    assert found.log_score == pytest.approx(exact.log_score, abs=1e-6)
    assert exact.log_score - 1e-6 <= found.upper < exact.log_score + 0.1


def test_what_is_supposed_and_what_is_real():
    model = zoo.sprinkler()
    assert dai.most_likely(model, do={"rain": "yes"}).labels["rain"] == "yes"
    found = dai.most_likely(model, likelihood={"rain": {"no": 1.0}}, method="search")
    assert found.labels["rain"] == "no"
    field = zoo.gaussian_lattice(3, 1.0, 0)
    assert dai.most_likely(field).status == "exact"
    with pytest.raises(dai.ConfigError, match="Gaussian models alone"):
        dai.most_likely(field, method="search")
    with pytest.raises(dai.ConfigError, match="method"):
        dai.most_likely(model, method="guess")
    same = dai.TableFactor.from_values(["a", "b"], [[1.0, 0.0], [0.0, 2.0]])
    pair = dai.FactorGraph([dai.Variable("a", 2), dai.Variable("b", 2)], [same])
    with pytest.raises(dai.ImpossibleEvidenceError):
        dai.most_likely(pair, {"a": "#0", "b": "#1"}, method="search")
    assert dai.most_likely(pair, {"a": "#1"}, method="search").log_score == pytest.approx(
        math.log(2.0)
    )


def test_single_variables_and_no_factors():
    one = dai.FactorGraph([dai.Variable("a", 3)], [dai.TableFactor(["a"], [0.0, 2.0, 1.0])])
    loose = dai.FactorGraph([dai.Variable("a", 3), dai.Variable("b", 2)], [])
    for method in ("auto", "search", "toulbar2"):
        assert dai.most_likely(one, method=method).labels == {"a": "1"}
        assert dai.most_likely(loose, method=method).log_score == pytest.approx(0.0, abs=1e-6)


def test_limits_are_kept(run):
    wide = zoo.ising_torus(side=24, sigma=1.0, seed=0)
    for method in ("search", "toulbar2"):
        begun = time.perf_counter()
        found = dai.most_likely(wide, method=method, time_limit=6)
        assert time.perf_counter() - begun < 12
        assert found.status == "bounded"
        assert found.upper > found.log_score
    with pytest.raises(dai.NotAffordableError):
        dai.most_likely(wide, method="exact", memory_limit="1MB", time_limit=5)
    with pytest.raises(dai.NotAffordableError):
        dai.most_likely(wide, time_limit=1e-6)


def test_on_the_command_line(run, tmp_path):
    code, out, err = run("most-likely", "asia", "-e", "xray=yes", "--of", "lung,smoke")
    assert (code, err) == (0, "")
    for said in ("log score", "exact", "lung=yes", "smoke=yes"):
        assert said in out
    told = run("most-likely", "asia", "-e", "xray=yes", "--method", "toulbar2", "--json")[1]
    assert '"status": "exact"' in told
    assert "lung,yes" in run("most-likely", "asia", "-e", "xray=yes", "--csv")[1]
    dai.write(zoo.ising_torus(side=18, sigma=1.0, seed=0), tmp_path / "wide.uai")
    words = ("query", tmp_path / "wide.uai", "--map", "--of", "x0", "--time-limit", "30")
    code, out, _ = run(*words)
    assert (code, "at most" in out or "(exact)" in out) == (0, True)
    code, _, err = run("most-likely", "asia", "--method", "guess")
    assert (code, "method is 'guess'" in err) == (2, True)
