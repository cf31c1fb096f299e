"""The protocol of benchmarks/trust_protocol.py, small and with fixed seeds."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUESTIONS = {"tiny": 1, "small": 2}  # of each kind
FEWEST_ANSWERS = {"tiny": 36, "small": 40}
FEWEST_GOOD = {"tiny": 18, "small": 20}
FEWEST_LOST_LARGE = {"tiny": 2, "small": 3}


@pytest.fixture(scope="module", params=["tiny", pytest.param("small", marks=pytest.mark.slow)])
def scale(request):
    return request.param


@pytest.fixture(scope="module")
def found(scale):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("trust_protocol").run(scale, QUESTIONS[scale])
    finally:
        sys.path.remove(str(BENCHMARKS))


def all_tallies(found):
    return [*found["good"].values(), *found["others"].values(), found["planted_answers"]]


def test_no_answer_is_wrong_under_a_good_status(found, scale):
    every = all_tallies(found)
    assert [claim for tally in every for claim in tally.wrong_claims] == []
    assert sum(tally.answers for tally in every) >= FEWEST_ANSWERS[scale]


def test_intervals_hold_the_truth_about_as_often_as_they_say(found):
    """At least 80 % of 95 % intervals: of fifty, fewer hold it by chance once in 30,000 runs.

    Answers to one question share their samples, so this is no more than a rough check.
    """
    every = all_tallies(found)
    inside = [one for tally in every for one in (*tally.inside, *tally.marginal_inside)]
    assert len(inside) >= 50
    assert np.mean(inside) >= 0.8


def test_no_right_answer_of_a_good_sampler_is_doubted(found, scale):
    assert [alarm for tally in found["good"].values() for alarm in tally.false_alarms] == []
    assert sum(tally.answers for tally in found["good"].values()) >= FEWEST_GOOD[scale]


def test_planted_errors_and_lost_modes_are_found(found):
    assert found["missed"] == []
    assert found["planted"] >= 6
    visible = [row for row in found["lost"] if row[1] > row[2]]
    assert visible
    assert all(is_found for _, _, _, is_found in visible)


def test_lost_modes_of_large_models_are_found(found, scale):
    """Models of 70 to 150 spins, where the opinion comes from messages and from chains."""
    cases = found["lost_large"]
    assert {case.method for case in cases} == {"messages", "annealed chains"}
    assert sum(case.is_visible for case in cases) >= FEWEST_LOST_LARGE[scale]
    assert all(case.is_found for case in cases if case.is_visible)
    assert not any(case.is_found for case in cases if case.share == 0)  # nothing was lost
