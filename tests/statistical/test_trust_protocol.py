"""The protocol of benchmarks/trust_protocol.py, small and with fixed seeds."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def found():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("trust_protocol").run("small", 2)
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_no_answer_is_wrong_under_a_good_status(found):
    every = [*found["good"].values(), *found["others"].values(), found["planted_answers"]]
    assert [claim for tally in every for claim in tally.wrong_claims] == []
    assert sum(tally.answers for tally in every) >= 40


def test_no_right_answer_of_a_good_sampler_is_doubted(found):
    assert [alarm for tally in found["good"].values() for alarm in tally.false_alarms] == []
    assert sum(tally.answers for tally in found["good"].values()) >= 20


def test_planted_errors_and_lost_modes_are_found(found):
    assert found["missed"] == []
    assert found["planted"] >= 6
    visible = [row for row in found["lost"] if row[1] > row[2]]
    assert visible
    assert all(is_found for _, _, _, is_found in visible)


def test_lost_modes_of_large_models_are_found(found):
    """Models of 144 and 150 spins, where the opinion comes from messages and from chains."""
    cases = found["lost_large"]
    assert {case.method for case in cases} == {"messages", "annealed chains"}
    assert sum(case.is_visible for case in cases) >= 3
    assert all(case.is_found for case in cases if case.is_visible)
    assert not any(case.is_found for case in cases if case.share == 0)  # nothing was lost
