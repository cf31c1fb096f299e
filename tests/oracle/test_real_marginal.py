"""What is said of a real variable, against scipy and against repeated sampling."""

import math

import numpy as np
import pytest
import scipy

from deltaai.errors import ConfigError, DeltaAIError, StateError, WeightError
from deltaai.real_marginals import QUANTILES, RealMarginal

PEER = scipy.stats.norm(1.5, 0.3)


def test_a_normal_one_is_that_of_scipy():
    found = RealMarginal.normal(1.5, 0.09)
    assert (found.mean, found.stderr, found.deviation_stderr) == (1.5, 0.0, 0.0)
    assert found.deviation == pytest.approx(0.3)
    at = np.linspace(-1, 4, 11)
    np.testing.assert_allclose(found.density(at), PEER.pdf(at), rtol=1e-12)
    np.testing.assert_allclose(found.cdf(at), PEER.cdf(at), rtol=1e-12)
    np.testing.assert_allclose(found.quantile([0.1, 0.5, 0.99]), PEER.ppf([0.1, 0.5, 0.99]))
    assert list(found.quantiles) == list(QUANTILES)
    assert found.quantile(0.975) == pytest.approx(PEER.ppf(0.975))
    edges = [1.0, 1.5, 3.0]
    shares, given = found.histogram(edges)
    np.testing.assert_allclose(shares, np.diff(PEER.cdf(edges)))
    assert given.tolist() == edges
    assert found.histogram(7)[0].sum() == pytest.approx(0.998, abs=1e-6)


def test_samples_of_it_agree():
    rng = np.random.default_rng(0)
    draws = rng.normal(1.0, 0.5, 200_000)  # from another one, weighted
    weights = PEER.pdf(draws) / scipy.stats.norm(1.0, 0.5).pdf(draws)
    found = RealMarginal.weighted(draws, weights)
    assert abs(found.mean - 1.5) < 4 * found.stderr
    assert abs(found.deviation - 0.3) < 4 * found.deviation_stderr
    errors = found.quantile_stderr(np.array(QUANTILES))
    assert (np.abs(found.quantile(np.array(QUANTILES)) - PEER.ppf(QUANTILES)) < 4 * errors).all()
    assert (errors < 0.02).all()
    at = np.linspace(0.5, 2.5, 9)
    np.testing.assert_allclose(found.cdf(at), PEER.cdf(at), atol=0.01)
    shares, edges = found.histogram(20)
    assert shares.sum() == pytest.approx(1.0)
    assert len(edges) == len(shares) + 1


def test_histogram_counts_every_sample_once():
    values = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 3.0])
    found = RealMarginal.weighted(values, [1, 1, 2, 1, 1, 2])
    shares, edges = found.histogram(3)
    expected, _ = np.histogram(values, edges, weights=np.array([1, 1, 2, 1, 1, 2]) / 8)
    assert shares.sum() == pytest.approx(1.0)
    # Bins of numpy hold their lower end, these their upper one.
    np.testing.assert_allclose(shares, [4 / 8, 2 / 8, 2 / 8])
    assert expected.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("group_size", [1, 5])
def test_standard_errors_cover_the_truth(group_size):
    """Over many sets of samples, errors are neither too small nor far too large."""
    rng = np.random.default_rng(1)
    ratios = {"mean": [], "deviation": [], "median": []}
    for _ in range(150):
        draws = np.repeat(rng.normal(0, 1.3, 400), group_size)
        weights = np.exp(-0.5 * draws**2 + 0.5 * (draws / 1.3) ** 2)
        found = RealMarginal.weighted(draws, weights, group_size)
        ratios["mean"].append(found.mean / found.stderr)
        ratios["deviation"].append((found.deviation - 1) / found.deviation_stderr)
        ratios["median"].append(found.quantile(0.5) / found.quantile_stderr(0.5))
    for name, each in ratios.items():
        assert 0.6 < np.std(each) < 1.2, name
        assert np.mean(np.abs(each) > 1.96) < 0.1, name


def test_copies_that_are_one_group_count_once():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=300)
    alone = RealMarginal.weighted(draws)
    copied = np.repeat(draws, 4)
    assert RealMarginal.weighted(copied, None, 4).stderr == pytest.approx(alone.stderr, rel=0.1)
    assert RealMarginal.weighted(copied).stderr < 0.6 * alone.stderr


def test_what_is_certain():
    for found in (RealMarginal.normal(2.0, 0.0), RealMarginal.weighted([2.0, 2.0, 2.0])):
        assert found.is_certain
        assert str(found) == "2"
        assert found.quantile(0.3) == found.quantile(0.9) == found.mean == 2.0
        assert found.cdf(1.9) == 0.0
        assert found.cdf(2.0) == 1.0
        assert found.histogram(4)[0].sum() == pytest.approx(1.0)
        assert found.stderr == 0.0
        assert found.deviation_stderr == 0.0
        assert found.quantile_stderr(0.5) == 0.0


def test_weights_may_be_zero_where_values_are_none():
    found = RealMarginal.weighted([1.0, math.nan, 3.0], [1.0, 0.0, 1.0])
    assert found.mean == 2.0
    assert np.isfinite(list(found.quantiles.values())).all()


def test_one_sample_says_next_to_nothing():
    found = RealMarginal.weighted([1.0])
    assert found.is_certain  # as far as anyone can tell; its status says what it is worth


def test_summary_and_texts():
    found = RealMarginal.normal(1.72, 0.0064)
    assert found.summary()["quantiles"]["0.5"] == pytest.approx(1.72)
    assert "stderr" not in found.summary()
    assert repr(found) == "RealMarginal(1.720 ± 0.080 [1.563, 1.877])"
    sampled = RealMarginal.weighted(np.random.default_rng(0).normal(size=1000))
    assert "standard error of the mean" in str(sampled)
    assert sampled.summary()["stderr"] == sampled.stderr
    assert "<th>mean</th>" in found._repr_html_()
    assert str(RealMarginal.normal(-2.5e9, 1e16)) == "-2.5e+09 ± 1e+08 [-2.696e+09, -2.304e+09]"
    assert str(RealMarginal.normal(1e-9, 1e-20)) == "1e-09 ± 1e-10 [8.04e-10, 1.196e-09]"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: RealMarginal.normal(math.nan, 1.0), StateError),
        (lambda: RealMarginal.normal(0.0, -1.0), StateError),
        (lambda: RealMarginal.normal("high", 1.0), StateError),
        (lambda: RealMarginal.weighted([]), StateError),
        (lambda: RealMarginal.weighted([math.nan, 1.0]), StateError),
        (lambda: RealMarginal.weighted("abc"), ConfigError),
        (lambda: RealMarginal.weighted([1.0, 2.0], [1.0]), WeightError),
        (lambda: RealMarginal.weighted([1.0, 2.0], [0.0, 0.0]), WeightError),
        (lambda: RealMarginal.weighted([1.0, 2.0], [math.nan, 0.0]), WeightError),
        (lambda: RealMarginal.weighted([1.0, 2.0], [-1.0, 2.0]), WeightError),
        (lambda: RealMarginal.weighted([1.0], None, 0), ConfigError),
        (lambda: RealMarginal.normal(0.0, 1.0).quantile(1.5), ConfigError),
        (lambda: RealMarginal.normal(0.0, 1.0).quantile("median"), ConfigError),
        (lambda: RealMarginal.normal(0.0, 1.0).histogram(0), ConfigError),
        (lambda: RealMarginal.normal(0.0, 1.0).histogram([1.0, 0.0]), ConfigError),
        (lambda: RealMarginal.normal(0.0, 0.0).density(0.0), StateError),
        (lambda: RealMarginal.weighted([0.0, 1.0]).density(0.0), StateError),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make, kind):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, DeltaAIError)
    assert "\n" not in str(caught.value)
