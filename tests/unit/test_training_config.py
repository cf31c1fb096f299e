"""Settings are checked when they are made; schedules are functions of settings and step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import config as jaxtyping_config

from deltaai.errors import ConfigError, DeltaAIError
from deltaai.training.config import TrainingConfig
from deltaai.training.schedules import inverse_temperature_at, learning_rate_at


@pytest.fixture(autouse=True)
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = jaxtyping_config.jaxtyping_disable
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", before)


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"steps": -1}, "steps is -1; it must be a whole number, at least 0"),
        ({"steps": 10.0}, r"steps is 10\.0; it must be a whole number"),
        ({"steps": True}, "steps is True; it must be a whole number"),
        ({"batch_size": 0}, "batch_size is 0; .* at least 1"),
        ({"resample_every": 0}, "resample_every is 0"),
        ({"seed": 2**63}, r"seed is .*: it must be a whole number from 0 to 2\^63 - 1"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be a finite number above 0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"learning_rate": math.inf}, "learning_rate is inf"),
        ({"learning_rate": 10**400}, "learning_rate is 1000"),
        ({"learning_rate": "0.1"}, "learning_rate is '0.1'"),
        ({"learning_rate": True}, "learning_rate is True"),
        ({"gradient_clip": -1.0}, "gradient_clip is -1"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"target_ess": 1.5}, r"target_ess is 1\.5; .* above 0 and at most 1"),
        ({"target_kl": 0.0}, "target_kl is 0"),
        ({"anneal_start": 0.0}, "anneal_start is 0"),
        ({"step_decay_factor": 1.1}, "step_decay_factor is 1.1"),
        ({"schedule": "cosin"}, "schedule is 'cosin'; did you mean 'cosine'"),
        ({"schedule": "x"}, "schedule is 'x'; one of cosine, step, constant"),
        ({"objective": "subtab"}, "objective is 'subtab'; did you mean 'subtb'"),
        ({"partial_energy": "half"}, "partial_energy is 'half'; one of completed, zero-filled"),
        ({"decay": 0}, "decay is 0"),
        ({"policy": "annealed"}, "anneal_steps is 0"),
        ({"log_partition": math.nan}, "log_partition is nan"),
        ({"sampled_variables": 0}, "sampled_variables is 0"),
        ({"policy": None}, "policy is None; one of on-policy"),
        ({"step_decay_at": (0.5, 0.5)}, "increasing fractions"),
        ({"step_decay_at": (0.0, 0.5)}, "above 0 and below 1"),
        ({"step_decay_at": (0.5, 1.0)}, "above 0 and below 1"),
        ({"step_decay_at": 0.5}, "must be a tuple of numbers"),
        ({"step_decay_at": ("a",)}, "must be a tuple of numbers"),
        ({"steps": 10, "warmup_steps": 11}, "warmup_steps is 11 but training ends after 10"),
        ({"steps": 10, "anneal_steps": 11}, "anneal_steps is 11 but training ends after 10"),
        ({"temperature": 2.0}, r"temperature is 2\.0 but policy 'on-policy' does not use it"),
        (
            {"policy": "uniform-mixture", "temperature": 2.0},
            "choose tempered or annealed or tempered-mixture",
        ),
        ({"exploration": 0.1}, "choose uniform-mixture or tempered-mixture"),
        ({"policy": "uniform-mixture", "exploration": 1.1}, "at least 0 and at most 1"),
        ({"evaluate_every": 0, "target_ess": 0.5}, "target_ess is set but evaluate_every is 0"),
        ({"evaluate_every": 0, "target_kl": 0.5}, "target_kl is set but evaluate_every is 0"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        TrainingConfig(**settings)
    with pytest.raises(ConfigError, match=problem):
        TrainingConfig.from_dict(settings)


def test_config_errors_are_ours_and_value_errors() -> None:
    assert issubclass(ConfigError, DeltaAIError)
    assert issubclass(ConfigError, ValueError)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"steps": 0},
        {"steps": 10, "warmup_steps": 10, "anneal_steps": 10},
        {"policy": "tempered", "temperature": 2},
        {"policy": "tempered-mixture", "temperature": 10.0, "exploration": 0.1},
        {"policy": "uniform-mixture", "exploration": 1},
        {"schedule": "step", "step_decay_at": (), "step_decay_factor": 0.5},
        {"gradient_clip": 1, "time_limit": 3600, "target_ess": 1, "target_kl": 0.1},
    ],
)
def test_settings_survive_json(settings: dict) -> None:
    config = TrainingConfig(**settings)
    written = json.dumps(config.to_dict(), allow_nan=False)
    read = TrainingConfig.from_dict(json.loads(written))
    assert read == config
    assert json.dumps(read.to_dict()) == written
    assert set(config.to_dict()) == {field.name for field in fields(TrainingConfig)}


def test_whole_numbers_are_numbers() -> None:
    jaxtyping_config.update("jaxtyping_disable", False)  # and pass the tests' type checks
    config = TrainingConfig(learning_rate=1, time_limit=60)
    assert config == TrainingConfig(learning_rate=1.0, time_limit=60.0)
    assert type(config.learning_rate) is type(config.time_limit) is float


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TrainingConfig().steps = 5  # type: ignore[misc]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="no setting 'batchsize'; did you mean 'batch_size'"):
        TrainingConfig.from_dict({"batchsize": 5})
    with pytest.raises(ConfigError, match="no setting 3"):
        TrainingConfig.from_dict({3: 5})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="not a list"):
        TrainingConfig.from_dict([])  # type: ignore[arg-type]


# -- the learning rate -------------------------------------------------------------------------


def test_step_decay_is_the_papers() -> None:
    config = TrainingConfig(steps=200_000, schedule="step")
    drops = (40_000, 80_000, 120_000, 160_000, 180_000)
    for count, drop in enumerate(drops):
        assert learning_rate_at(config, drop - 1) == pytest.approx(0.1**count)
        assert learning_rate_at(config, drop) == pytest.approx(0.1 ** (count + 1))


def test_step_decay_comes_on_time_despite_rounding() -> None:
    config = TrainingConfig(steps=10, schedule="step", step_decay_at=(0.7,))
    assert 0.07 * 100 > 7  # products such as this are a little off
    assert [learning_rate_at(config, step) for step in (6, 7)] == [1.0, 0.1]
    config = TrainingConfig(steps=100, schedule="step", step_decay_at=(0.07, 0.57))
    assert [learning_rate_at(config, step) for step in (6, 7, 56)] == [1.0, 0.1, 0.1]
    assert learning_rate_at(config, 57) == pytest.approx(0.01)


def test_cosine_falls_to_almost_zero() -> None:
    config = TrainingConfig(steps=101, schedule="cosine")
    rates = [learning_rate_at(config, step) for step in range(101)]
    assert rates[0] == 1.0
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert 0 < rates[-1] < 0.001
    assert learning_rate_at(config, 10_000) == rates[-1]


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_warm_up_is_a_line_to_the_top(schedule: str) -> None:
    config = TrainingConfig(steps=100, schedule=schedule, warmup_steps=4)
    rates = [learning_rate_at(config, step) for step in range(5)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_constant_stays() -> None:
    config = TrainingConfig(steps=10, schedule="constant")
    assert {learning_rate_at(config, step) for step in range(20)} == {1.0}


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.sampled_from(["cosine", "step", "constant"]),
    st.integers(0, 100),
)
def test_the_multiplier_is_between_zero_and_one(
    steps: int, warmup: int, schedule: str, step: int
) -> None:
    config = TrainingConfig(steps=steps, warmup_steps=min(warmup, steps), schedule=schedule)
    assert 0.0 < learning_rate_at(config, step) <= 1.0


# -- annealing ---------------------------------------------------------------------------------


def test_annealing_is_a_line_that_ends_at_exactly_one() -> None:
    config = TrainingConfig(steps=100, anneal_steps=30, anneal_start=0.1)
    values = [inverse_temperature_at(config, step) for step in range(100)]
    assert values[0] == pytest.approx(0.1)
    assert values[15] == pytest.approx(0.55)
    assert all(later > earlier for earlier, later in pairwise(values[:31]))
    assert set(values[30:]) == {1.0}


def test_without_annealing_the_target_is_itself() -> None:
    assert inverse_temperature_at(TrainingConfig(), 0) == 1.0
