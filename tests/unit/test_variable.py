"""Variables: labels, indices, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from jaxtyping import config

from deltaai.errors import DeltaAIError, EvidenceError, ModelError
from deltaai.models import Variable


@pytest.fixture(autouse=True)
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


def test_states_by_number_are_labelled_from_zero() -> None:
    variable = Variable("x", 3)
    assert variable.states == ("0", "1", "2")
    assert variable.num_states == 3
    assert Variable("x").num_states == 2
    assert Variable("x", 1).states == ("0",)


def test_labels_are_kept_in_order() -> None:
    assert Variable("rain", ["none", "some", "much"]).states == ("none", "some", "much")


def test_variables_are_values() -> None:
    assert Variable("x", 2) == Variable("x", ["0", "1"])
    assert Variable("x", 2) != Variable("x", ["no", "yes"])
    assert Variable("x", 2) != Variable("y", 2)
    assert len({Variable("x", 2), Variable("x", 2), Variable("y", 2)}) == 2
    with pytest.raises(AttributeError):
        Variable("x", 2).name = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("state", "index"), [("some", 1), (1, 1), ("1", 1), (np.int64(2), 2), ("2", 2)]
)
def test_index_of_takes_labels_and_indices(state: str | int, index: int) -> None:
    assert Variable("rain", ["none", "some", "much"]).index_of(state) == index


def test_a_label_wins_over_an_index() -> None:
    assert Variable("x", ["1", "0"]).index_of("1") == 0
    with pytest.raises(EvidenceError, match="write the text '1' for the label, or '#1' for"):
        Variable("x", ["1", "0"]).index_of(1)


@pytest.mark.parametrize("name", ["", 3, None])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises(ModelError, match="non-empty string"):
        Variable(name, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (0, "'x' needs at least one state, not 0"),
        (-1, "at least one state, not -1"),
        ([], "'x' needs at least one state"),
        (["a", "b", "a"], "'x' has the state 'a' twice"),
    ],
)
def test_bad_states_are_refused(states: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Variable("x", states)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("sme", r"'rain' has no state 'sme'; did you mean 'some'\? \(its states: none, some, much"),
        (3, "'rain' has no state 3: give a label or an index from 0 to 2"),
        (-1, "no state -1"),
        ("3", "no state '3'"),
        ("-1", "no state '-1'"),
        (True, "no state True"),
        ("", "no state ''"),
    ],
)
def test_unknown_states_are_refused(state: str | int, message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        Variable("rain", ["none", "some", "much"]).index_of(state)


def test_a_long_list_of_states_is_cut_in_the_message() -> None:
    with pytest.raises(EvidenceError, match=r"0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\)"):
        Variable("x", 40).index_of("many")


def test_a_number_of_states_may_be_a_numpy_integer() -> None:
    assert Variable("x", np.int64(3)).num_states == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("states", [True, 2.0, None])
def test_states_that_are_no_number_or_list_are_refused(states: object) -> None:
    with pytest.raises(ModelError, match="'x'"):
        Variable("x", states)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [1.5, None, [1]])
def test_a_state_that_is_no_label_or_index_is_refused(state: object) -> None:
    with pytest.raises(DeltaAIError, match="'rain'"):
        Variable("rain", ["none", "some", "much"]).index_of(state)  # type: ignore[arg-type]
