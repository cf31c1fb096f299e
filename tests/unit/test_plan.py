"""Plans: every way to an answer, what it costs, and which one is taken."""

import time
from itertools import count
from types import SimpleNamespace

import pytest

from deltaai import budget, watch
from deltaai.answering import ways
from deltaai.answering.asking import query
from deltaai.answering.planning import plan
from deltaai.errors import NotAffordableError, format_seconds
from deltaai.models import zoo

SIDE = 40
WIDE = zoo.ising_lattice(side=SIDE, sigma=0.2, seed=0)
LIMIT = 2**31


def set_clock(monkeypatch, perf_counter):
    """Let limits go by another clock than that of a machine that may be busy."""
    clock = SimpleNamespace(perf_counter=perf_counter, process_time=time.process_time)
    for module in (budget, watch):
        monkeypatch.setattr(module, "time", clock)


@pytest.fixture
def still_clock(monkeypatch):
    """A clock that stands still, so that only counted work decides."""
    set_clock(monkeypatch, lambda: 0.0)


def names_of_the_lines():
    """Evidence that cuts the lattice into squares."""
    lines = (10, 20, 30)
    return {f"x_{row}_{k}": 0 for row in lines for k in range(SIDE)} | {
        f"x_{k}_{column}": 0 for column in lines for k in range(SIDE)
    }


def test_an_affordable_model_is_exact():
    found = plan(zoo.ising_lattice(side=4, sigma=0.2, seed=0), memory_limit=LIMIT)
    assert (found.method, found.is_exact) == ("exact", True)
    assert [option.method for option in found.options] == ["exact"]
    assert 0 < found.predicted_seconds < 1


def test_a_wide_model_is_amortised_and_a_cut_one_exact():
    found = plan(WIDE, memory_limit=LIMIT)
    assert found.method == "amortised"
    assert [option.is_affordable for option in found.options] == [False, True]
    assert found.options[1].predicted_bytes <= LIMIT
    cut = plan(WIDE, names_of_the_lines(), memory_limit=LIMIT)
    assert cut.method == "exact after evidence"
    assert [option.method for option in cut.options] == ["exact", "exact after evidence"]
    assert cut.options[0].predicted_bytes > LIMIT > cut.options[1].predicted_bytes
    answer = query(WIDE, names_of_the_lines(), of=[WIDE.variables[0].name], memory_limit=LIMIT)
    assert answer.status == "exact"


def test_some_variables_are_fixed_where_that_makes_it_fit():
    torus = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    found = plan(torus, memory_limit=40_000)
    assert (found.method, found.is_exact) == ("exact in parts", True)
    assert [option.is_affordable for option in found.options] == [False, True]
    assert found.option("exact").predicted_bytes > 40_000 >= found.predicted_bytes
    assert found.cutset.cost.peak_bytes == found.predicted_bytes
    assert f"{len(found.cutset.variables)} variables fixed at a time" in found.reason
    assert plan(torus, memory_limit=40_000, search_seconds=0).method == "cannot"
    assert plan(torus, memory_limit=40_000, search_seconds=1e-6).method == "cannot"
    answer = query(torus, memory_limit=40_000)
    assert (answer.status, answer.plan.method) == ("exact", "exact in parts")
    expected = query(torus)
    assert answer.log_partition == pytest.approx(expected.log_partition)
    assert query(torus, memory_limit=40_000, method="exact").status == "exact"


def test_a_search_takes_no_more_work_than_it_is_allowed(monkeypatch, still_clock):
    searches = []
    search = ways.cutset_of

    def counted(*arguments, **settings):
        searches.append(settings["search_seconds"])
        return search(*arguments, **settings)

    monkeypatch.setattr(ways, "cutset_of", counted)
    torus = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    plan(torus, memory_limit=10**8)
    assert not searches  # it fits as it is
    query(torus, memory_limit=40_000)
    query(torus, memory_limit=40_000, time_limit=8)
    plan(torus, memory_limit=40_000, time_limit=8, search_seconds=1)
    assert searches == [5.0, 2.0, 1]  # one for a question
    with pytest.raises(NotAffordableError):
        query(torus, memory_limit=40_000, method="sampler")
    assert len(searches) == 3


def test_one_order_is_searched_for_where_evidence_does_not_help(monkeypatch, still_clock):
    tries = []
    search = ways.best_elimination

    def counted(graph, states, **settings):
        tries.append(settings.get("most_tries", 64))
        return search(graph, states, **settings)

    monkeypatch.setattr(ways, "best_elimination", counted)
    first = WIDE.variables[0].name
    assert plan(WIDE, {first: 1}, memory_limit=LIMIT).method == "amortised"
    assert tries == [64]
    tries.clear()
    assert plan(zoo.ising_lattice(side=6, sigma=0.2, seed=0), {"x_0_0": 1}).method == "exact"
    assert tries == [64, 0]  # without the evidence, greedy orders only
    tries.clear()
    plan(WIDE, memory_limit=LIMIT, time_limit=1.0)
    assert tries[0] < 10  # a small share of the time that there is


def test_little_memory_or_time_is_refused_in_words(still_clock):
    found = plan(WIDE, memory_limit=10**6)
    assert found.method == "cannot"
    assert "raise the limits" in found.reason
    hurried = plan(WIDE, time_limit=0.01)
    assert hurried.method == "cannot"
    assert "of 0.01 s" in hurried.reason
    with pytest.raises(NotAffordableError, match="training a sampler needs"):
        query(WIDE, memory_limit=10**3)
    with pytest.raises(NotAffordableError, match=r"of 0.01 s"):
        query(zoo.ising_lattice(side=14, sigma=0.2, seed=0), time_limit=0.01, method="exact")


def test_time_alone_can_rule_an_exact_answer_out(still_clock):
    narrow = zoo.ising_lattice(side=14, sigma=0.2, seed=0)
    assert plan(narrow).method == "exact"
    seconds = plan(narrow).predicted_seconds
    assert plan(narrow, time_limit=seconds / 2).method != "exact"


def test_a_plan_without_a_limit_of_time_does_not_depend_on_the_clock(monkeypatch):
    torus = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    usual = plan(torus, memory_limit=40_000)
    hours = count(step=3600.0)
    set_clock(monkeypatch, lambda: next(hours))  # an hour passes between any two looks
    slow = plan(torus, memory_limit=40_000)
    assert slow.rows() == usual.rows()
    assert slow.elimination.order == usual.elimination.order
    assert slow.cutset == usual.cutset


def test_times_for_people():
    assert [format_seconds(number) for number in (0, 0.5, 59.6, 3600, 10**5, 10**7, 1e12)] == [
        "0.01 s",
        "0.50 s",
        "60 s",
        "60 min",
        "28 h",
        "116 days",
        "3e+04 years",
    ]


def test_messages_are_tried_where_that_is_quick():
    """Where they are good enough nothing is trained, and a plan says so; query need not know."""
    mild = zoo.ising_lattice(side=26, sigma=0.2, seed=0)
    told = plan(mild, memory_limit=2**28)
    assert told.method == "amortised"
    assert "without training, 9" in told.reason
    blind = plan(mild, memory_limit=2**28, search_seconds=0)
    assert "without training" not in blind.reason
    assert told.predicted_seconds < blind.predicted_seconds / 2
    hard = plan(zoo.ising_lattice(side=26, sigma=1.0, seed=0), memory_limit=2**28)
    assert "without training" in hard.reason
    assert hard.predicted_seconds > 2 * told.predicted_seconds
