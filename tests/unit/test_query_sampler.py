"""Questions answered by a sampler that is trained for them."""

from itertools import combinations

import pytest

from deltaai.answering.asking import query
from deltaai.errors import (
    ConfigError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    NotAffordableError,
)
from deltaai.fitting.fit_model import fit
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable, zoo

LATTICE = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
FIRST, LAST = LATTICE.variables[0].name, LATTICE.variables[-1].name


@pytest.mark.parametrize("evidence", [{}, {FIRST: 1, LAST: 0}])
def test_a_sampled_answer_agrees_with_the_exact_one(evidence):
    exact = query(LATTICE, evidence)
    found = query(LATTICE, evidence, method="sampler", seed=1)
    assert (exact.status, found.status) == ("exact", "estimated")
    assert exact.interval == (exact.log_partition, exact.log_partition)
    low, high = found.interval
    assert low - 0.01 <= exact.log_partition <= high + 0.01
    assert found.ess > 5000
    for name, expected in exact.marginals.items():
        assert found.marginals[name] == pytest.approx(expected, abs=0.02)


def test_the_method_follows_the_plan():
    assert query(LATTICE, of=[FIRST]).status == "exact"
    with pytest.raises(MemoryLimitError):
        query(LATTICE, method="exact", memory_limit=1)
    for method in ("auto", "sampler"):
        with pytest.raises(NotAffordableError):
            query(LATTICE, method=method, memory_limit=1)
    names = [f"x{number}" for number in range(24)]
    dense = FactorGraph(
        [Variable(name, 2) for name in names],
        [SpinCoupling(*pair, 0.05) for pair in combinations(names, 2)],
    )
    found = query(dense, of=["x3"], memory_limit=2**27)
    assert found.plan.method == "exact in parts"
    assert (found.status, found.method) == ("exact", "elimination given 3 variables at a time")
    assert list(found.marginals) == ["x3"]
    sampled = query(dense, of=["x3"], memory_limit=2**27, method="sampler", time_limit=60)
    assert sampled.status in {"estimated", "untrusted"}
    assert sampled.marginals["x3"] == pytest.approx([0.5, 0.5], abs=0.1)
    with pytest.raises(ConfigError, match="method is 'best'"):
        query(LATTICE, method="best")


def test_zeros_are_propagated_and_evidence_may_decide_everything():
    variables = [Variable("a", 2), Variable("b", 2), Variable("c", 3)]
    same = TableFactor.from_values(["a", "b"], [[1.0, 0.0], [0.0, 2.0]])
    never = TableFactor.from_values(["b", "c"], [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0]])
    model = FactorGraph(variables, [same, never])
    decided = query(model, {"a": 0}, method="sampler")
    assert decided.status == "exact"
    assert decided.marginals["c"].tolist() == [1, 0, 0]
    assert decided.log_partition == pytest.approx(query(model, {"a": 0}).log_partition)
    exact, found = query(model), query(model, method="sampler")
    assert found.log_partition == pytest.approx(exact.log_partition, abs=0.05)
    assert found.marginals["c"][2] == 0
    with pytest.raises(ImpossibleEvidenceError):
        query(model, {"a": 0, "c": 1}, method="sampler")


def test_too_little_training_is_not_trusted():
    peaked = zoo.ising_lattice(side=5, sigma=2.0, seed=0)
    with pytest.raises(NotAffordableError):
        query(peaked, method="sampler", time_limit=1e-9)
    found = fit(peaked, steps=3).answer({}, 1000)
    assert found.status == "untrusted"
    assert found.doubts


def updates_of(**settings):
    seen = []
    found = query(
        zoo.ising_lattice(side=5, sigma=0.6, seed=0),
        method="sampler",
        check_samples=0,
        watch=lambda progress: seen.append(progress.step),
        **settings,
    )
    return max(seen), found


def test_training_ends_at_the_error_that_is_asked_for():
    few, usual = updates_of()
    more, careful = updates_of(target_stderr=1e-4)
    assert few < more
    assert usual.stderr < 0.01 < 100 * careful.stderr
    # With few samples weights have to be more even for the same error.
    assert updates_of(num_samples=300, target_stderr=0.01)[0] >= few
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="target_stderr"):
            query(LATTICE, target_stderr=wrong)
