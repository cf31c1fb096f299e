"""``learn`` as a newcomer meets it: columns, structures, notes and refusals."""

import gzip

import numpy as np
import pandas as pd
import pytest
import torch

import deltaai as dai
from deltaai.learning.likelihood.exact_gradient import ExactGradient
from deltaai.learning.likelihood.held_out import HeldOut
from deltaai.learning.tables.bins import Cuts

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


ROWS = [
    {"rain": "no", "wet": "no"},
    {"rain": "yes", "wet": "yes"},
    {"rain": "no", "wet": "?"},
    {"rain": None, "wet": "yes"},
] * 10


def test_a_frame_a_list_and_a_file_say_the_same(tmp_path):
    path = tmp_path / "rows.csv"
    frame = pd.DataFrame(ROWS)
    frame.to_csv(path, index=False)
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    found = [dai.learn(data, [("rain", "wet")]) for data in (ROWS, frame, path, str(packed))]
    for model in found[1:]:
        for mine, first in zip(model.factors, found[0].factors, strict=True):
            np.testing.assert_array_equal(mine.log_table, first.log_table)
    assert [v.states for v in found[0].variables] == [("no", "yes"), ("no", "yes")]
    assert found[0].report.missing_share == pytest.approx(0.25)


def test_the_model_answers_at_once_and_can_be_written(tmp_path):
    model = dai.learn(ROWS)
    answer = dai.query(model, evidence={"wet": "yes"}, of=["rain"])
    assert answer.status == "exact"
    dai.write(model, tmp_path / "m.bif")
    again = dai.read(tmp_path / "m.bif")
    np.testing.assert_allclose(
        dai.query(again, evidence={"wet": "yes"}).marginals["rain"], answer.marginals["rain"]
    )
    with pytest.raises(dai.EvidenceError, match=r"no state 'snow'.*no, yes"):
        dai.query(model, evidence={"rain": "snow"})


def test_the_same_seed_gives_the_same_tables_whatever_the_order_of_rows():
    forward = dai.learn(ROWS, held_out=0)
    backward = dai.learn(ROWS[::-1], held_out=0)
    for mine, other in zip(forward.factors, backward.factors, strict=True):
        np.testing.assert_allclose(mine.log_table, other.log_table, rtol=1e-12)


def test_numbers_are_sorted_as_numbers_and_binned_only_when_asked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 12, 300), "height": rng.normal(size=300)})
    with pytest.raises(dai.EvidenceError, match=r"'height' has 300 different numbers.*bins"):
        dai.learn(frame)
    model = dai.learn(frame, bins={"height": 4})
    assert model.variables[0].states == tuple(str(k) for k in range(12))
    height = model.variables[1]
    assert height.num_states == 4
    assert height.states[0].startswith("<")
    assert any("cut into 4 bins" in note for note in model.report.notes)
    marginal = dai.query(model, of=["height"]).marginals["height"]
    np.testing.assert_allclose(marginal, 0.25, atol=0.01)


def test_most_cells_in_the_smallest_bin():
    frame = pd.DataFrame({"a": [0.0] * 95 + [1.5, 2.5, 3.5, 4.5, 5.5]})
    states = dai.learn(frame, bins=3).variables[0].states
    assert states == ("<1.5", ">=1.5")


def test_labels_of_bins_say_where_the_cuts_are():
    rng = np.random.default_rng(0)
    for numbers in (rng.normal(size=200), 1e6 + rng.random(200) / 1e3, rng.integers(-9, 9, 200)):
        frame = pd.DataFrame({"a": numbers})
        first = dai.learn(frame, bins=4, held_out=0)
        assert len(set(first.variables[0].states)) == 4
        cuts = Cuts.of_labels(first.variables[0].states)
        found = np.bincount(cuts.states_of(np.array(numbers, dtype=float)), minlength=4)
        marginal = dai.query(dai.learn(frame, bins=4, held_out=0, prior=0)).marginals["a"]
        np.testing.assert_allclose(marginal * 200, found, atol=1e-9)
        dai_again = dai.learn(frame, first, held_out=0)  # the same numbers, into the same bins
        assert torch.equal(dai_again.factors[0].log_table, first.factors[0].log_table)
        assert "was cut as the model says" in " ".join(dai_again.report.notes)
    assert Cuts.of_labels(["<1", "2..3", ">=3"]) is None
    assert Cuts.of_labels(["<a", ">=a"]) is None


def test_what_one_may_not_expect_is_noted():
    rows = [{"a": "x", "b": "NA", "c": str(k % 2)} for k in range(30)]
    notes = " ".join(dai.learn(rows).report.notes)
    assert "'a' has one value" in notes
    assert "'NA'" in notes
    model = dai.example("sprinkler")
    rows = [{"cloudy": "no", "sprinkler": "no", "rain": "no", "wet_grass": "no", "id": 3}] * 20
    assert "'id'" in " ".join(dai.learn(rows, model).report.notes)


def test_the_report_shows_itself():
    report = dai.learn(ROWS).report
    assert "log-likelihood of a row" in str(report)
    assert "<table>" in report._repr_html_()
    assert report.to_dict()["num_rows"] == 40


def test_a_prior_of_zero_may_make_rows_impossible_and_says_so():
    rows = [{"a": "x", "b": str(k)} for k in range(2)] * 100
    rows[7] = {"a": "y", "b": "1"}
    for seed in range(50):
        report = dai.learn(rows, "independent", prior=0, seed=seed, held_out=0.2).report
        if report.held_out_log_likelihood == float("-inf"):
            assert "impossible" in str(report)
            return
    raise AssertionError("the rare row was never held out")


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        ([], {}, "no rows"),
        (pd.DataFrame({"a": []}), {}, "no rows"),
        ([{"a": ""}, {"a": None}], {}, "'a' has no known cell"),
        (ROWS, {"structure": "chow-lui"}, "chow-liu"),
        (ROWS, {"structure": [("rain", "snow")]}, "'snow', which is no column"),
        (ROWS, {"structure": [("rain", "wet"), ("wet", "rain")]}, "cycle"),
        (ROWS, {"structure": [("rain", "rain")]}, "its own"),
        (ROWS, {"structure": ["rain"]}, "pairs"),
        (ROWS, {"structure": 3}, "structure is 3"),
        (ROWS, {"structure": dai.zoo.ising_lattice(side=2, sigma=0.1, seed=0)}, "no such column"),
        (ROWS, {"structure": "grid 3x4"}, "12 variables, and the data have 2 columns"),
        (ROWS, {"structure": dai.zoo.sprinkler()}, "no such column"),
        (ROWS, {"structure": "nothing.bif"}, "no such file"),
        (ROWS, {"prior": -1}, "prior"),
        (ROWS, {"held_out": 1.0}, "held_out"),
        (ROWS, {"steps": 0}, "steps"),
        (ROWS, {"latent": ["h"]}, "latent"),
        (ROWS, {"latent": {"rain": 2}}, "column of that name"),
        (ROWS, {"structure": "asia", "latent": {"smoke": 3}}, "'smoke' has the states yes, no"),
        (ROWS, {"bins": {"rian": 3}}, "did you mean"),
        (5, {}, "DataFrame"),
        ([3], {}, "not a mapping"),
        ([{"a": k} for k in range(60)], {}, "bins"),
        ([{"a": f"name{k}"} for k in range(60)], {}, "names the cases"),
        ([{"a": k} for k in [*range(60), "n.a."]], {}, r"'n\.a\.' .* say so with missing"),
        ([{"a": k} for k in (1, 2, 3, "inf")], {"bins": 2}, "holds 'inf' where numbers"),
        (ROWS, {"bins": {"rain": 1}}, "at least 2"),
        ([*ROWS, {"rain": "so", "wet": "?"}], {"bins": {"rain": 2}}, "holds 'no', 'yes', 'so' wh"),
        (ROWS, {"structure": dai.learn(ROWS), "bins": 2}, "states are given by a model"),
    ],
)
def test_refusals_say_what_to_do(data, settings, words):
    with pytest.raises(dai.DeltaAIError, match=words):
        dai.learn(data, **settings)


def test_an_example_is_a_structure_by_its_name():
    rows = [{"cloudy": "no", "sprinkler": "no", "rain": "no", "wet_grass": "no"}] * 20
    assert dai.learn(rows, "sprinkler").num_factors == 4


def test_labels_must_be_those_of_the_structure():
    rows = [{"cloudy": "maybe", "sprinkler": "no", "rain": "no", "wet_grass": "no"}] * 5
    with pytest.raises(dai.EvidenceError, match=r"column 'cloudy'.*'maybe'"):
        dai.learn(rows, dai.zoo.sprinkler())


def test_a_wide_structure_is_refused_before_memory_is_taken():
    names = [f"x{k}" for k in range(40)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 2, (50, 40)).astype(object), columns=names)
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    edges = [(a, b) for k, b in enumerate(names) for a in names[max(0, k - 3) : k]]
    edges += [(names[k], names[k + 20]) for k in range(20)]
    with pytest.raises(dai.NotAffordableError, match="cannot be filled in exactly"):
        dai.learn(frame, edges, memory_limit="100KB")
    with pytest.raises(dai.ModelError, match="entries"):
        dai.learn(frame, [(name, "x39") for name in names[:-1]])


def test_when_the_time_is_over_what_was_found_is_the_answer():
    frame = pd.DataFrame(
        dai.exact(dai.example("asia")).sample(2000, 0).numpy(), columns=list("abcdefgh")
    )
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.5)
    with pytest.raises(dai.TimeLimitError):
        dai.learn(frame, time_limit=1e-3)


@pytest.mark.parametrize("is_judged", [True, False])
def test_time_that_ends_in_a_line_search_keeps_what_was_found(monkeypatch, is_judged):
    calls, surrogate, measure = [], ExactGradient.surrogate, HeldOut.measure

    def late(self, *arguments, **named):
        calls.append(0)
        if len(calls) > 6:
            raise dai.TimeLimitError("the model", 1.0)
        return surrogate(self, *arguments, **named)

    def judged(self, **named):
        if not is_judged:
            raise dai.TimeLimitError("the model", 1.0)
        return measure(self, **named)

    monkeypatch.setattr(ExactGradient, "surrogate", late)
    monkeypatch.setattr(HeldOut, "measure", judged)
    report = dai.learn(ROWS, "grid 1x2").report
    assert report.steps >= 1
    assert not report.has_converged
    assert ("not known: the time was over" in str(report)) != is_judged
    calls += [0] * 10
    with pytest.raises(dai.TimeLimitError):
        dai.learn(ROWS, "grid 1x2")


def test_a_grid_is_learned_along_the_gradient():
    truth = dai.zoo.ising_lattice(side=3, sigma=0.7, seed=0)
    names = [variable.name for variable in truth.variables]
    frame = pd.DataFrame(dai.exact(truth).sample(3000, 0).numpy(), columns=names)
    frame = frame.astype(object).mask(np.random.default_rng(0).random(frame.shape) < 0.1)
    apart = dai.learn(frame, "independent").report
    for structure in ("grid 3x3", truth):
        model = dai.learn(frame, structure)
        assert model.report.status == "exact"
        found, wanted = (dai.query(one).marginals for one in (model, truth))
        assert max(abs(found[name] - wanted[name]).max() for name in names) < 0.03
        assert model.report.held_out_log_likelihood > apart.held_out_log_likelihood + 0.1
        assert "gradient" in str(model.report)


def test_a_grid_on_the_command_line_is_written_as_uai(run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,d\n" + "0,0,1,1\n1,1,0,0\n0,1,1,0\n0,0,0,?\n" * 20)
    code, _, err = run("learn", path, "-o", tmp_path / "m.bif", "--structure", "grid 2x2")
    assert (code, "write a .dai file" in " ".join(err.split())) == (2, True)
    code, out, err = run("learn", path, "-o", tmp_path / "m.uai", "--structure", "grid 2x2")
    assert code == 0, err
    assert "exact gradient" in " ".join(out.split())
    assert dai.read(tmp_path / "m.uai").num_factors == 8
