"""How answers show real variables: cards, pictures, errors, names of vectors."""

import numpy as np
import pytest

from deltaai.errors import ConfigError, DeltaAIError, EvidenceError
from deltaai.trust import Marginals, Quality, RealMarginal, exact_answer

HEIGHT = RealMarginal.normal(1.72, 0.0064)
KNEE = [RealMarginal.normal(float(number), 1.0) for number in range(3)]
VALUES = {"height": HEIGHT, "lung": np.array([0.9, 0.1])}
STATES = {"lung": ["no", "yes"], "height": ()}


def marginals(values=VALUES):
    return Marginals(values, Quality(), None, STATES)


def test_rows_say_mean_deviation_and_interval():
    assert marginals().rows() == [
        ("height", "1.720 ± 0.080 [1.563, 1.877]"),
        ("P(lung)", "no: 0.9, yes: 0.1"),
    ]
    answer = exact_answer(VALUES, -1.5, 0.0, "elimination")
    assert "height   1.720 ± 0.080 [1.563, 1.877]" in str(answer)
    assert "1.720 ± 0.080" in answer._repr_html_()


def test_the_estimate_of_a_real_variable_is_its_mean():
    found = marginals().estimate("height")
    assert (found.value, found.stderr, found.status) == (1.72, 0.0, "exact")
    sampled = RealMarginal.weighted(np.random.default_rng(0).normal(10, 1, 500))
    quality = Quality(status="estimated", ess=500.0, num_samples=500, degrees=499)
    found = Marginals({"x": sampled}, quality).estimate("x")
    low, high = found.interval
    assert low < 10 < high
    assert high > 1  # not cut to where probabilities are


def test_vectors_by_name():
    found = marginals({f"knee[{number}]": each for number, each in enumerate(KNEE)} | VALUES)
    assert found["knee"] == KNEE
    assert list(found.of(["knee", "lung"])) == ["knee[0]", "knee[1]", "knee[2]", "lung"]
    assert list(found.of(["knee[1]"])) == ["knee[1]"]
    with pytest.raises(KeyError):
        found["elbow"]
    assert "elbow" not in found
    with pytest.raises(EvidenceError, match="no marginal of 'elbow'"):
        found.of(["elbow"])


def test_a_real_variable_has_no_labels():
    with pytest.raises(DeltaAIError, match="is real and has no states"):
        marginals().labels("height")


def test_pictures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    real = exact_answer({"height": HEIGHT, "$x_1$": KNEE[0]}, 0.0, 0.0, "elimination")
    axes = real.plot()
    axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["height", "$x_1$"]
    many = exact_answer({f"x{number}": HEIGHT for number in range(40)}, 0.0, 0.0, "elimination")
    assert "15 more" in many.plot().get_title()
    with pytest.raises(ConfigError, match="do not share an axis"):
        exact_answer(VALUES, 0.0, 0.0, "elimination").plot()
    pyplot.close("all")
