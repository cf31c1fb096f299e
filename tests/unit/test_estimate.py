"""Estimates and marginals: intervals, brackets, and what they share."""

import math

import numpy as np
import pytest

from deltaai.trust.estimate import Estimate, Marginals, Quality


def test_an_exact_value_has_no_width():
    found = Estimate(2.5)
    assert found.interval == (2.5, 2.5)
    assert (float(found), found.status, found.ess_fraction) == (2.5, "exact", None)
    assert str(found) == "2.5 (exact)"


def test_few_independent_parts_make_wider_intervals():
    many = Estimate(0.0, 1.0, status="estimated")
    few = Estimate(0.0, 1.0, status="estimated", degrees=24)
    assert many.interval[1] == pytest.approx(1.95996, abs=1e-4)
    assert few.interval[1] == pytest.approx(2.0639, abs=1e-4)


def test_a_bracket_cuts_the_interval():
    found = Estimate(1.0, 1.0, status="estimated", bracket=(0.5, 1.2))
    assert found.interval == (0.5, 1.2)


def test_probabilities_stay_between_zero_and_one():
    low, high = Estimate(np.array([0.99, 0.01]), np.array([0.02, 0.02])).interval
    assert high[0] == 1
    assert low[1] == 0
    assert np.all(low < high)


def test_no_error_bar_is_known():
    low, high = Estimate(1.0, math.nan, status="estimated").interval
    assert math.isnan(low)
    assert math.isnan(high)


def test_marginals_are_a_mapping_with_a_status():
    quality = Quality(status="estimated", method="test", ess=10.0, khat=0.1, num_samples=20)
    rows = {"a": np.array([0.25, 0.75]), "b": np.array([0.5, 0.5])}
    errors = {"a": np.array([0.1, 0.1]), "b": np.array([0.2, 0.2])}
    found = Marginals(rows, quality, errors)
    assert list(found) == ["a", "b"]
    assert (found.status, found.ess, found.khat, found.doubts) == ("estimated", 10.0, 0.1, ())
    one = found.estimate("b")
    assert one.value is rows["b"]
    assert one.stderr is errors["b"]
    assert (one.status, one.ess_fraction, one.quality) == ("estimated", 0.5, quality)
    assert str(one) == "0.5 ± 0.2, 0.5 ± 0.2 (estimated)"
    assert list(found.of(["b"])) == ["b"]
    exact = Marginals(rows, Quality())
    assert exact.estimate("a").interval[0].tolist() == [0.25, 0.75]
