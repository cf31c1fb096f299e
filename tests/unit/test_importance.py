"""Importance weights against closed forms, and error bars that hold what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from arviz_stats.base import array_stats
from hypothesis import given
from hypothesis import strategies as st

from deltaai.errors import DeltaAIError, WeightError
from deltaai.importance import (
    estimate_from_log_weights,
    normalised_weights,
    pareto_khat,
)


def gaussian_log_weights(width: float, num_samples: int, seed: int) -> np.ndarray:
    """Log weights of p~ = exp(-x²/2) for x from a normal distribution of this width."""
    x = width * np.random.default_rng(seed).standard_normal(num_samples)
    log_q = -0.5 * (x / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))
    return -0.5 * x**2 - log_q


# -- figures -----------------------------------------------------------------------------------


def test_a_handful_of_weights_by_hand() -> None:
    # Weights 1 (twice), 2 and 0: mean 1, (Σw)² / Σw² = 16 / 6.
    estimate = estimate_from_log_weights(torch.tensor([0.0, 0.0, math.log(2), -math.inf]))
    assert estimate.num_samples == 4
    assert estimate.log_partition == pytest.approx(0.0, abs=1e-7)
    assert estimate.ess == pytest.approx(16 / 6)
    assert estimate.ess_fraction == pytest.approx(4 / 6)
    assert estimate.stderr == pytest.approx(math.sqrt((0 + 0 + 1 + 1) / 3) / math.sqrt(4))
    assert estimate.elbo == -math.inf
    assert estimate.elbo_stderr == math.inf


def test_a_wide_gaussian_proposal() -> None:
    width, num_samples = 1.3, 400_000
    estimate = estimate_from_log_weights(gaussian_log_weights(width, num_samples, seed=0))
    elbo = -(width**2) / 2 + 0.5 * math.log(2 * math.pi * width**2) + 0.5
    ess_fraction = math.sqrt(2 * width**2 - 1) / width**2
    stderr = math.sqrt((1 / ess_fraction - 1) / num_samples)
    elbo_stderr = (width**2 - 1) / 2 * math.sqrt(2 / num_samples)
    assert estimate.log_partition == pytest.approx(0.5 * math.log(2 * math.pi), abs=4 * stderr)
    assert estimate.elbo == pytest.approx(elbo, abs=4 * elbo_stderr)
    assert estimate.ess_fraction == pytest.approx(ess_fraction, rel=0.01)
    assert estimate.ess == pytest.approx(ess_fraction * num_samples, rel=0.01)
    assert estimate.stderr == pytest.approx(stderr, rel=0.02)
    assert estimate.elbo_stderr == pytest.approx(elbo_stderr, rel=0.02)
    assert estimate.khat < 0.3  # the weights are bounded


def test_a_categorical_proposal() -> None:
    scores, q = np.array([1.0, 5.0, 2.0]), np.array([0.2, 0.5, 0.3])
    states = np.repeat([0, 1, 2], (1000 * q).astype(int))  # exactly q's shares
    estimate = estimate_from_log_weights(np.log(scores / q)[states])
    assert estimate.log_partition == pytest.approx(math.log(8))
    assert estimate.elbo == pytest.approx(float(q @ np.log(scores / q)))
    assert estimate.ess_fraction == pytest.approx(64 / float(scores**2 @ (1 / q)))


def test_equal_weights_are_certain() -> None:
    estimate = estimate_from_log_weights(torch.full((50,), -3.5))
    assert estimate.log_partition == pytest.approx(-3.5)
    assert estimate.elbo == -3.5
    assert estimate.stderr == pytest.approx(0.0, abs=1e-12)
    assert estimate.elbo_stderr == 0.0
    assert estimate.ess == pytest.approx(50)
    assert estimate.khat == -math.inf


def test_one_sample_promises_nothing() -> None:
    estimate = estimate_from_log_weights(torch.tensor([2.0]))
    assert (estimate.log_partition, estimate.elbo, estimate.ess) == (2.0, 2.0, 1.0)
    assert (estimate.stderr, estimate.elbo_stderr, estimate.khat) == (math.inf,) * 3


LOG_WEIGHTS = st.lists(st.floats(-50, 50) | st.just(-math.inf), min_size=2, max_size=60).filter(
    lambda values: max(values) > -math.inf
)


@given(LOG_WEIGHTS)
def test_the_figures_fit_together(values: list[float]) -> None:
    estimate = estimate_from_log_weights(torch.tensor(values, dtype=torch.float64))
    n = len(values)
    assert estimate.elbo <= estimate.log_partition + 1e-9
    assert 1 - 1e-9 <= estimate.ess <= n
    assert estimate.stderr**2 == pytest.approx(n / (n - 1) * (1 / estimate.ess - 1 / n), abs=1e-9)
    assert estimate.stderr <= 1 + 1e-9
    assert not math.isnan(estimate.khat)


@given(LOG_WEIGHTS, st.sampled_from([-1e6, -700.0, 0.5, 1e5]))
def test_a_shift_moves_log_z_and_nothing_else(values: list[float], shift: float) -> None:
    log_weights = torch.tensor(values, dtype=torch.float64)
    before = estimate_from_log_weights(log_weights)
    after = estimate_from_log_weights(log_weights + shift)
    assert after.log_partition == pytest.approx(before.log_partition + shift, abs=1e-8)
    assert after.elbo == pytest.approx(before.elbo + shift, abs=1e-8)
    for name in ("stderr", "elbo_stderr", "ess"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-6, abs=1e-8)
    assert torch.allclose(normalised_weights(log_weights + shift), normalised_weights(log_weights))


@pytest.mark.parametrize("scale", [1e4, 1e100, 1e307])
def test_huge_logarithms(scale: float) -> None:
    estimate = estimate_from_log_weights(np.array([-scale, scale, 0.0] * 20))
    assert estimate.log_partition == pytest.approx(scale + math.log(1 / 3))
    assert estimate.ess == pytest.approx(20)
    assert estimate.khat == -math.inf  # the largest was seen twenty times
    assert not math.isnan(estimate.elbo)


def test_single_precision_is_summed_in_double() -> None:
    log_weights = torch.full((100_000,), 88.0)  # their sum overflows a float
    assert estimate_from_log_weights(log_weights).log_partition == pytest.approx(88.0, abs=1e-9)
    weights = normalised_weights(log_weights)
    assert weights.dtype == torch.float64
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-12)


# -- the tail ----------------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [25, 100, 225, 226, 1000])
def test_khat_is_that_of_arviz(num_samples: int) -> None:
    log_weights = np.random.default_rng(0).standard_normal(num_samples)
    _, expected = array_stats.psislw(-log_weights)
    assert pareto_khat(log_weights) == pytest.approx(float(expected))


@pytest.mark.parametrize("shape", [0.2, 0.9, 1.5])
def test_khat_finds_the_shape_of_a_pareto_tail(shape: float) -> None:
    uniform = np.random.default_rng(1).random(20_000)
    assert pareto_khat(-shape * np.log(uniform)) == pytest.approx(shape, abs=0.15)


def test_khat_does_not_mind_impossible_states() -> None:
    log_weights = np.random.default_rng(2).standard_normal(2000)
    log_weights[:1500] = -math.inf
    assert pareto_khat(log_weights) < 0.7


@pytest.mark.parametrize(
    ("log_weights", "expected"),
    [
        (np.arange(24.0), math.inf),  # too few
        (np.zeros(24), math.inf),
        (np.zeros(25), -math.inf),
        (np.repeat([0.0, 1.0], 500), -math.inf),  # the whole tail is equal
        (np.repeat([0.0, 1.0], [950, 50]), -math.inf),  # so is what stands out of the rest
        (np.repeat([0.0, 1.0], [997, 3]), math.inf),  # too few stand out
        (1e6 * np.arange(1000.0), math.inf),  # one weight is all there is
    ],
)
def test_khat_where_there_is_no_tail_to_fit(log_weights: np.ndarray, expected: float) -> None:
    assert pareto_khat(log_weights) == expected


def test_khat_leaves_out_weights_equal_to_the_threshold() -> None:
    rng = np.random.default_rng(3)
    top = -0.9 * np.log(rng.random(60))
    tied = np.concatenate([np.full(940, -0.1), top])  # the usual tail would hold 94
    assert pareto_khat(tied) == pytest.approx(0.9, abs=0.25)


# -- honesty -----------------------------------------------------------------------------------


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    num_covered = 0
    for seed in range(300):
        log_weights = 0.7 * np.random.default_rng(seed).standard_normal(400) - 0.7**2 / 2
        estimate = estimate_from_log_weights(log_weights)  # the mean weight is 1
        num_covered += abs(estimate.log_partition) <= 1.96 * estimate.stderr
    assert 0.90 * 300 <= num_covered <= 0.99 * 300


def test_where_the_interval_fails_khat_says_so() -> None:
    truth, num_covered, num_flagged = 0.5 * math.log(2 * math.pi), 0, 0
    for seed in range(100):
        # A proposal this narrow gives weights with tail index 1 - 0.3², and no variance.
        estimate = estimate_from_log_weights(gaussian_log_weights(0.3, 1000, seed))
        num_covered += abs(estimate.log_partition - truth) <= 1.96 * estimate.stderr
        num_flagged += estimate.khat > 0.5
    assert num_covered < 50
    assert num_flagged >= 90


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [estimate_from_log_weights, normalised_weights, pareto_khat])
@pytest.mark.parametrize(
    ("log_weights", "problem"),
    [
        ([0.0, math.nan, 1.0], r"log weight 1 is NaN \(1 of 3 are\)"),
        ([math.inf, math.inf], r"log weight 0 is plus infinity \(2 of 2 are\)"),
        ([-math.inf] * 3, "all 3 weights are zero"),
        ([], r"shape \(samples,\) with at least one sample, not \(0,\)"),
        ([[0.0]], r"not \(1, 1\)"),
        (0.0, r"not \(\)"),
    ],
)
def test_what_is_no_weight_is_refused(call, log_weights: object, problem: str) -> None:
    with pytest.raises(WeightError, match=problem):
        call(torch.tensor(log_weights))
    assert issubclass(WeightError, DeltaAIError)
