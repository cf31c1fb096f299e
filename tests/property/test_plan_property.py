"""A plan predicts its answer: exact if and only if it says so, refused if and only if it cannot."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deltaai as dai
from deltaai.answering import questions as questions_module
from deltaai.answering.asking import query
from deltaai.answering.exact_answers import most_likely_as_planned
from deltaai.answering.planning import plan
from deltaai.errors import ImpossibleEvidenceError, NotAffordableError, TimeLimitError
from deltaai.exact import Enumeration, exact_cost
from deltaai.fitting.defaults import TrainingCost
from deltaai.graphs import best_elimination


class _TrainedError(Exception):
    """A sampler would have been trained."""


TRAINING = TrainingCost(peak_bytes=300, seconds=0.01)


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Training costs little here, so that plans for small models come to it, and is not done."""

    def refuse(*_, **__):
        raise _TrainedError

    planning, asking = (sys.modules[f"deltaai.answering.{name}"] for name in ("planning", "asking"))
    monkeypatch.setattr(asking, "fit", refuse)
    monkeypatch.setattr(asking, "bytes_of_samples", lambda *_, **__: 0)
    for module in (planning, questions_module):
        monkeypatch.setattr(module, "training_cost", lambda *_, **__: TRAINING)


@st.composite
def questions(draw):
    """A model of few states, with zeros or without, and evidence on some of its variables."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 10))
    sizes = rng.integers(1, 4, count).tolist()
    variables = [dai.Variable(f"v{n}", size) for n, size in enumerate(sizes)]
    share_of_zeros = draw(st.sampled_from([0.0, 0.1, 0.4]))
    factors = []
    for _ in range(draw(st.integers(0, 24))):
        scope = rng.choice(count, size=min(int(rng.integers(1, 4)), count), replace=False)
        values = rng.exponential(size=[sizes[v] for v in scope])
        is_zero = rng.random(values.shape) < share_of_zeros
        is_zero.flat[rng.integers(is_zero.size)] = False
        values[is_zero] = 0.0
        factors.append(dai.TableFactor.from_values([f"v{v}" for v in scope], values))
    seen = rng.permutation(count)[: draw(st.sampled_from([0, 0, 1, 2, count]))].tolist()
    evidence = {f"v{v}": int(rng.integers(sizes[v])) for v in seen}
    model = dai.FactorGraph(variables, factors)
    # Memory for nothing, for some of the tables, or for all of them.
    all_tables = exact_cost(best_elimination(model.markov_graph(), sizes), sizes).peak_bytes
    memory = 1 + int(all_tables * draw(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0])))
    seconds = draw(st.sampled_from([None, None, None, 1e-6, 1e-3, 2e-3, 1.0]))
    return model, evidence, {"memory_limit": memory, "time_limit": seconds}


@settings(max_examples=60)
@given(questions())
def test_a_plan_predicts_its_answer(question):
    model, evidence, limited = question
    try:
        planned = plan(model, evidence, **limited)
    except ImpossibleEvidenceError:
        with pytest.raises(ImpossibleEvidenceError):
            query(model, evidence, **limited)
        return
    try:
        answer = query(model, evidence, **limited)
    except TimeLimitError:  # the clock is stricter than any plan
        assert limited["time_limit"] is not None
    except NotAffordableError:
        assert planned.method == "cannot"
        with pytest.raises(NotAffordableError):
            query(model, evidence, method="exact", **limited)
    except _TrainedError:
        assert planned.method == "amortised"
    except ImpossibleEvidenceError:
        assert planned.is_exact
    else:
        assert planned.is_exact
        assert answer.status == "exact"
        assert (answer.plan.method, answer.plan.reason) == (planned.method, planned.reason)
        assert planned.predicted_bytes <= limited["memory_limit"]
        _check(model, evidence, planned, answer)


def _check(model, evidence, planned, answer):
    """The answer is right, whichever way it was found, and so is the most likely state."""
    given_it = model.condition(evidence)
    truth = Enumeration(given_it)
    assert answer.log_partition == pytest.approx(truth.log_partition(), rel=1e-9, abs=1e-9)
    for name, expected in truth.marginals().items():
        assert answer.marginals[name] == pytest.approx(expected, abs=1e-9)
    best = most_likely_as_planned(planned, None)
    assert best.log_score == pytest.approx(truth.map()[1], rel=1e-9, abs=1e-9)
    assert float(model.log_score(best.state[None])) == pytest.approx(best.log_score, abs=1e-6)
    for name, state in evidence.items():
        assert best.state[model.index(name)] == state
    # A table of one row has the same answer; it also keeps that answer in memory.
    row = query(model, [evidence], memory_limit=planned.memory_limit + 2**20)
    assert row.status == ("exact",)
    assert row.log_partition == pytest.approx([answer.log_partition], rel=1e-9, abs=1e-9)


def test_all_methods_are_met():
    """The limits above are such that every kind of plan is among the examples."""
    met = set()

    @settings(max_examples=100)
    @given(questions())
    def collect(question):
        model, evidence, limited = question
        try:
            met.add(plan(model, evidence, **limited).method)
        except ImpossibleEvidenceError:
            met.add("impossible")

    collect()
    kinds = {"exact", "exact after evidence", "exact in parts", "amortised", "cannot", "impossible"}
    assert met == kinds


@pytest.mark.parametrize("limit", [10_000, 40_000])
def test_a_wider_model_in_parts(limit):
    torus = dai.zoo.ising_torus(side=6, sigma=0.5, seed=1)
    planned = plan(torus, memory_limit=limit)
    if planned.is_exact:
        answer = query(torus, memory_limit=limit)
        assert answer.log_partition == pytest.approx(query(torus).log_partition, abs=1e-9)
        best = most_likely_as_planned(planned, None)
        assert best.log_score == pytest.approx(dai.exact(torus).map().log_score)
        assert float(torus.log_score(best.state[None])) == pytest.approx(best.log_score)
    else:
        with pytest.raises(NotAffordableError):
            query(torus, memory_limit=limit)
