"""Many rows of evidence: exact and sampled answers against enumeration, one row at a time."""

import numpy as np
import pandas as pd
import pytest
import torch

import deltaai as dai
from deltaai.errors import ConfigError, EvidenceError, MemoryLimitError, NotAffordableError

LATTICE = dai.zoo.ising_lattice(side=3, sigma=0.5, seed=0)
NAMES = [variable.name for variable in LATTICE.variables]
ROWS = [{}, {NAMES[0]: 1}, {NAMES[4]: 0, NAMES[8]: 1}, dict.fromkeys(NAMES[1:], 0)]


@pytest.fixture(scope="module")
def sampler():
    return dai.fit(LATTICE, evidence="any", steps=250, seed=0)


def truth_of(model, rows):
    engines = [dai.exact(model, row) for row in rows]
    marginals = np.array([np.concatenate(list(one.marginals().values())) for one in engines])
    return marginals, np.array([one.log_partition() for one in engines])


def test_exact_rows_agree_with_one_at_a_time():
    found = dai.query_table(LATTICE, ROWS)
    marginals, log_z = truth_of(LATTICE, ROWS)
    np.testing.assert_allclose(found.probabilities, marginals, atol=1e-12)
    np.testing.assert_allclose(found.log_partition, log_z, atol=1e-10)
    assert found.status == ("exact",) * 4
    assert not found.errors.any()
    assert not found.stderr.any()
    assert np.isnan(found.ess).all()


def test_sampled_rows_agree_within_their_errors(sampler):
    found = dai.query_table(sampler, ROWS, num_samples=4000)
    marginals, log_z = truth_of(LATTICE, ROWS)
    assert set(found.status) == {"estimated"}
    assert np.all(np.abs(found.probabilities - marginals) < 4.5 * found.errors + 1e-3)
    assert np.all(np.abs(found.log_partition - log_z) < 4.5 * found.stderr + 1e-3)
    assert np.all(found.ess > 2000)


def test_a_sampler_is_trained_where_exact_is_switched_off():
    small = dai.zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    first, *_, last = (variable.name for variable in small.variables)
    same = [{first: value, last: other} for value in (0, 1) for other in (0, 1)]
    for rows in (same, [{}, {first: 1}], [{}, {}]):
        found = dai.query_table(small, rows, method="sampler", num_samples=2000, steps=120)
        marginals, _ = truth_of(small, rows)
        assert set(found.status) == {"estimated"}
        assert np.abs(found.probabilities - marginals).max() < 0.05


def test_frames_in_frames_out():
    frame = pd.DataFrame(
        {"rain": ["yes", None, "no"], "wet_grass": ["yes", "yes", np.nan]}, index=["a", "b", "c"]
    )
    model = dai.zoo.sprinkler()
    found = dai.query(model, evidence=frame, of=["cloudy", "rain"])
    assert list(found.index) == ["a", "b", "c"]
    expected = ["cloudy=no", "cloudy=yes", "rain=no", "rain=yes"]
    assert list(found.columns) == [
        *expected,
        "log_partition",
        "stderr",
        "status",
        "ess",
        "khat",
        "visible_share",
        "doubts",
    ]
    assert found.loc["b", "rain=yes"] == pytest.approx(0.7079, abs=1e-4)
    assert found.loc["a", "rain=yes"] == 1
    assert set(found["status"]) == {"exact"}
    listed = dai.query(model, evidence=[{"wet_grass": "yes"}], of=["rain"])
    assert isinstance(listed, dai.TableAnswer)
    assert listed.marginals(0)["rain"][1] == pytest.approx(0.7079, abs=1e-4)


@pytest.mark.parametrize("method", ["exact", "sampler"])
def test_an_impossible_row_spoils_no_other(method):
    rows = [{"rain": "yes"}, {"sprinkler": 0, "rain": 0, "wet_grass": 1}, {}]
    found = dai.query_table(dai.zoo.sprinkler(), rows, method=method, steps=150)
    good = "exact" if method == "exact" else "estimated"
    assert found.status == (good, "impossible", good)
    assert np.isnan(found.probabilities[1]).all()
    assert found.log_partition[1] == -np.inf
    assert "probability zero" in found.doubts[1]
    marginals, _ = truth_of(dai.zoo.sprinkler(), [rows[0], rows[2]])
    assert np.abs(found.probabilities[[0, 2]] - marginals).max() < 0.05


@pytest.mark.parametrize("is_sampled", [False, True])
def test_samples_on_request_agree_with_the_evidence(sampler, is_sampled):
    found = dai.query_table(sampler if is_sampled else LATTICE, ROWS, samples=200, of=NAMES[:1])
    assert found.samples.shape == (4, 200, 9)
    assert bool((found.samples[1, :, 0] == 1).all())
    assert bool((found.samples[3, :, 1:] == 0).all())
    share = float((found.samples[2, :, 0] == 1).double().mean())
    assert share == pytest.approx(found.probabilities[2, 1], abs=0.15)
    cells = list(found.sample_cells())
    assert len(cells) == 800
    assert cells[201][:3] == ["1", "1", LATTICE.variables[0].states[1]]


def test_progress_and_no_rows():
    seen = []
    found = dai.query_table(LATTICE, [], progress=seen.append)
    assert len(found) == 0
    assert found.to_frame().shape == (0, 2 * 9 + 7)
    dai.query_table(LATTICE, ROWS * 50, progress=seen.append)
    assert seen
    assert max(seen) <= 1


def test_limits_are_kept():
    with pytest.raises(MemoryLimitError):
        dai.query_table(LATTICE, ROWS, method="exact", memory_limit=5000)
    with pytest.raises(NotAffordableError, match="training a sampler needs"):
        dai.query_table(LATTICE, ROWS, memory_limit=5000)
    with pytest.raises(NotAffordableError, match="answers to 4 rows need about"):
        dai.query_table(LATTICE, ROWS, memory_limit=10)


def test_bad_questions_are_refused(sampler):
    with pytest.raises(EvidenceError, match="did you mean"):
        dai.query_table(LATTICE, ROWS, of=[NAMES[0] + "x"])
    with pytest.raises(ConfigError, match="method is 'best'"):
        dai.query_table(LATTICE, ROWS, method="best")
    with pytest.raises(ConfigError, match="give its model"):
        dai.query_table(sampler, ROWS, method="exact")
    with pytest.raises(ConfigError, match="at least 1"):
        dai.query_table(sampler, ROWS, num_samples=0)
    with pytest.raises(EvidenceError, match="shape"):
        dai.query_table(LATTICE, torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(EvidenceError, match="no states"):
        dai.query_table(LATTICE, torch.full((1, 9), 2))


def test_wrong_samplers_are_untrusted_in_tables():
    peaked = dai.zoo.ising_lattice(side=4, sigma=1.0, seed=0)
    first = peaked.variables[0].name
    untrained = dai.fit(peaked, evidence="any", steps=0, seed=0, is_informed=False)
    found = dai.query_table(untrained, [{first: 0}, {}])
    assert found.status == ("estimated", "untrusted")
    assert found.doubts[1]
    # Given evidence, messages for it take the place of what q drew, and they are right.
    truth = dai.exact(peaked, {first: 0})
    assert found.log_partition[0] == pytest.approx(truth.log_partition(), abs=1e-6)
    alone = dai.query_table(untrained, [{first: 0}], check_rows=0)
    assert alone.status == ("untrusted",)
