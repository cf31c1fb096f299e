"""A question is resolved once: nothing is read, resolved, cut, propagated or searched for again.

Every function that does such work is counted where it is defined and wherever it was imported to.
"""

import sys
from collections import Counter

import pytest

import deltaai as dai
from deltaai.answering import streamed_samples
from deltaai.budget import Budget
from deltaai.models import propagate_zeros
from deltaai.randomness import generator_of

# What does the work, by the name of a count. Elimination orders are counted by their graph, for a
# plan also looks at what the question would cost without its evidence.
WORK = {
    "read": ("deltaai.io.files", "_read_source"),
    "resolved": ("deltaai.models.evidence", "resolve_evidence"),
    "conditioned": ("deltaai.models.conditioning", "conditioned"),
    "propagated": ("deltaai.models.zeros.determinism", "possible_states"),
    "searched": ("deltaai.graphs.elimination", "best_elimination"),
}
EVIDENCE = {"smoke": "yes", "xray": "no"}


@pytest.fixture
def counts(monkeypatch):
    dai.query("sprinkler", {"rain": "yes"}, of=[("cloudy", "sprinkler")])  # so that all is imported
    found, graphs = Counter(), []

    def counted(name, function):
        def call(*arguments, **settings):
            if name == "conditioned" and not arguments[1]:
                return function(*arguments, **settings)  # nothing to take out
            if name == "resolved" and not arguments[2]:
                return function(*arguments, **settings)  # nothing to resolve
            if name == "searched":
                found["searched again"] += arguments[0] in graphs
                graphs.append(arguments[0])
            found[name] += 1
            return function(*arguments, **settings)

        return call

    for name, (module, attribute) in WORK.items():
        function = getattr(sys.modules[module], attribute)
        wrapped = counted(name, function)
        for where in [m for key, m in sys.modules.items() if key.startswith("deltaai")]:
            for key, value in list(vars(where).items()):
                if value is function:
                    monkeypatch.setattr(where, key, wrapped)
    return found


def test_every_kind_of_work_is_counted(counts):
    propagate_zeros(dai.read("asia"), EVIDENCE)
    dai.exact(dai.read("sprinkler"), {"rain": "yes"})
    assert +counts == {"read": 2, "resolved": 2, "propagated": 1, "conditioned": 1, "searched": 1}
    dai.exact(dai.read("sprinkler"), {"rain": "yes"})
    assert counts["searched again"] == 1


@pytest.mark.parametrize("of", [None, ["lung"], [("lung", "bronc"), ("tub", "smoke"), "dysp"]])
def test_an_exact_question(counts, of):
    answer = dai.query("asia", EVIDENCE, of)
    assert answer.status == "exact"
    # One order for what evidence leaves, one to say what it would take without.
    assert +counts == {"read": 1, "resolved": 1, "conditioned": 1, "searched": 2}


def test_a_question_on_the_command_line(counts, run):
    code, out, _ = run("query", "asia", "-e", "smoke=yes,xray=no", "--of", "lung", "--map")
    assert code == 0
    assert "most likely" in out
    assert +counts == {"read": 1, "resolved": 1, "conditioned": 1, "searched": 2}


def test_a_question_that_zeros_are_propagated_for(counts):
    answer = dai.query("asia", {"smoke": "yes", "either": "no"}, memory_limit=170)
    assert answer.plan.method == "exact after evidence"
    assert answer.plan.reduction is not None
    wanted = {"read": 1, "resolved": 1, "conditioned": 1, "propagated": 1, "searched again": 0}
    assert {name: counts[name] for name in wanted} == wanted


def test_a_question_that_a_sampler_is_trained_for(counts):
    dai.query("asia", EVIDENCE, method="sampler", time_limit=4)
    wanted = {"read": 1, "resolved": 1, "propagated": 1}
    assert {name: counts[name] for name in wanted} == wanted


def test_belief_propagation(counts):
    dai.query("asia", EVIDENCE, method="bp")
    assert +counts == {"read": 1, "resolved": 1, "conditioned": 1}


def test_a_sampler_and_a_table_of_cases(counts):
    sampler = dai.fit("sprinkler", steps=2, smoothing=1e-3, evidence="any")
    counts.clear()
    dai.query(sampler, {"rain": "yes"}, num_samples=100)
    assert (counts["read"], counts["resolved"]) == (0, 1)
    counts.clear()
    dai.query_table(sampler, [{"rain": "yes"}, {"cloudy": "no"}], num_samples=100)
    assert counts["resolved"] == 0  # cells are read one by one


@pytest.mark.parametrize("is_sampler", [False, True])
def test_samples_in_blocks(counts, monkeypatch, is_sampler):
    monkeypatch.setattr(streamed_samples, "_AT_ONCE", 100)
    source = dai.read("sprinkler")
    if is_sampler:
        source = dai.fit(source, steps=2, smoothing=1e-3, evidence="any")
    counts.clear()
    blocks = streamed_samples.sample_stream(
        source, 250, generator_of(0), evidence={"rain": "yes"}, budget=Budget.of()
    )
    assert [len(x) for x, _ in blocks] == [100, 100, 50]
    assert counts["resolved"] == 1
