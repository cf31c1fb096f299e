"""Plans: every way to an answer, what it costs, and which one is taken."""

import pytest

from deltaai.errors import NotAffordableError, format_seconds
from deltaai.inference.plan import plan
from deltaai.inference.query import query
from deltaai.models import zoo

WIDE = zoo.ising_lattice(side=20, sigma=0.2, seed=0)
LIMIT = 2**29


def names_of_the_cross():
    names = [variable.name for variable in WIDE.variables]
    return {names[10 * 20 + k]: 0 for k in range(20)} | {names[20 * k + 10]: 0 for k in range(20)}


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
    cut = plan(WIDE, names_of_the_cross(), memory_limit=LIMIT)
    assert cut.method == "exact after evidence"
    assert [option.method for option in cut.options] == ["exact", "exact after evidence"]
    assert cut.options[0].predicted_bytes > LIMIT > cut.options[1].predicted_bytes
    answer = query(WIDE, names_of_the_cross(), of=[WIDE.variables[0].name], memory_limit=LIMIT)
    assert answer.status == "exact"


def test_little_memory_or_time_is_refused_in_words():
    found = plan(WIDE, memory_limit=10**6)
    assert found.method == "cannot"
    assert "raise the limits" in found.reason
    hurried = plan(WIDE, time_limit=0.01)
    assert hurried.method == "cannot"
    assert "of 0.01 s" in hurried.reason
    with pytest.raises(NotAffordableError, match="training a sampler needs"):
        query(WIDE, memory_limit=10**3)
    with pytest.raises(NotAffordableError, match=r"of 0.01 s"):
        query(WIDE, time_limit=0.01, method="exact")


def test_time_alone_can_rule_an_exact_answer_out():
    narrow = zoo.ising_lattice(side=14, sigma=0.2, seed=0)
    assert plan(narrow).method == "exact"
    seconds = plan(narrow).predicted_seconds
    assert plan(narrow, time_limit=seconds / 2).method != "exact"


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
