"""Learning on: where an earlier model is begun at, what must agree with it, what it is worth."""

import numpy as np
import pandas as pd
import pytest
import torch

import deltaai as dai

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")

SPRINKLER = dai.zoo.sprinkler()


def frame_of(model, number, seed=0, share=0.0):
    frame = dai.exact(model).sample(number, seed, as_frame=True)
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def tables(model):
    return {factor.child: factor.log_table.exp() for factor in model.factors}


def largest_gap(one, other):
    mine, theirs = tables(one), tables(other)
    return max(float((mine[name] - theirs[name]).abs().max()) for name in theirs)


TREE = [("cloudy", "sprinkler"), ("cloudy", "rain"), ("rain", "wet_grass")]


@pytest.mark.parametrize(("structure", "gap"), [(TREE, 1e-12), (SPRINKLER, 1e-3)])
def test_rows_that_count_are_as_good_as_rows(structure, gap):
    """Complete old rows: with their number, the result is that of all rows together."""
    old, new = frame_of(SPRINKLER, 700, 1), frame_of(SPRINKLER, 60, 2)
    plain = {"prior": 0, "held_out": 0}
    first = dai.learn(old, structure, **plain)
    together = dai.learn(pd.concat([old, new]), structure, **plain)
    on = dai.learn(new, start=first, start_rows=700, held_out=0)
    assert largest_gap(on, together) < gap
    assert largest_gap(dai.learn(new, start=first, **plain), together) > 0.03
    assert "counts as 700 rows" in str(on.report)
    # The same where cells of the new rows are missing.
    new = frame_of(SPRINKLER, 60, 2, share=0.3)
    near = {"tolerance": 0, "steps": 20}
    together = dai.learn(pd.concat([old, new]), structure, **plain, **near)
    on = dai.learn(new, start=first, start_rows=700, held_out=0, **near)
    assert largest_gap(on, together) < 10 * gap


def test_learning_begins_at_the_tables():
    rows = frame_of(SPRINKLER, 400, share=0.4)
    first = dai.learn(rows, SPRINKLER, held_out=0, tolerance=1e-10, steps=2000)
    again = dai.learn(rows, start=first, held_out=0, tolerance=1e-6)
    assert (first.report.steps > 10, again.report.steps) == (True, 2)
    assert largest_gap(first, again) < 1e-4
    assert "from where its tables stood" in str(again.report)
    known = dai.learn(frame_of(SPRINKLER, 50), start=first)
    assert "those of these rows alone" in " ".join(str(known.report).split())


def test_variables_are_known_by_name_and_states_stay(tmp_path):
    rows = [{"rain": r, "wet": w} for r, w in [("no", "no"), ("so", "yes"), ("yes", "yes")] * 20]
    first = dai.learn(rows, [("rain", "wet")])
    path = tmp_path / "first.bif"
    dai.write(first, path)
    more = [{"id": k, "wet": "yes", "rain": "no"} for k in range(30)]
    for start in (first, path, str(path)):
        on = dai.learn(more, start=start, start_rows=60)
        assert on.variables == first.variables
        assert dai.query(on, of=["rain"]).marginals["rain"][1] == pytest.approx(20 / 90, abs=0.01)
        assert "'id'" in " ".join(on.report.notes)
    with pytest.raises(dai.EvidenceError, match=r"'rain' has no state 'maybe'.*no, so, yes"):
        dai.learn([*more, {"wet": "no", "rain": "maybe"}], start=first)
    with pytest.raises(dai.EvidenceError, match="no such column"):
        dai.learn([{"rain": "no"}], start=first)


def test_numbers_fall_into_the_bins_of_the_start():
    rng = np.random.default_rng(0)
    first = dai.learn(pd.DataFrame({"a": rng.normal(size=200)}), bins=3, held_out=0)
    more = pd.DataFrame({"a": [-9.0, -8.5, 0.0, 12.0]})
    on = dai.learn(more, start=first, prior=0, held_out=0)
    assert dai.query(on).marginals["a"].tolist() == pytest.approx([0.5, 0.25, 0.25])


def test_what_is_never_seen_keeps_its_meaning():
    edges = [("kind", name) for name in "abc"]
    rng = np.random.default_rng(0)
    kinds = rng.random(600) < 0.3
    frame = pd.DataFrame({name: (rng.random(600) < np.where(kinds, 0.9, 0.2)) for name in "abc"})
    frame = frame.astype(str)
    short = {"held_out": 0, "steps": 40}
    for seed in (0, 1):
        first = dai.learn(frame[:400], edges, latent={"kind": 2}, restarts=1, seed=seed, **short)
        on = dai.learn(frame[400:], start=first, latent={"kind": 2}, start_rows=400, **short)
        before, after = tables(first)["a"], tables(on)["a"]
        assert (before[0, 0] > before[1, 0]) == (after[0, 0] > after[1, 0])
    with pytest.raises(dai.EvidenceError, match="name it as latent"):
        dai.learn(frame, start=first)
    with pytest.raises(dai.ConfigError, match="give one"):
        dai.learn(frame, start=first, latent={"kind": 2}, restarts=3)


def test_what_was_impossible_may_be_learned():
    first = dai.learn([{"a": "x", "b": "0"}, {"a": "y", "b": "1"}] * 20, [("a", "b")], prior=0)
    assert float(tables(first)["b"].min()) == 0
    rows = [{"a": "x", "b": "1"}, {"a": None, "b": "0"}] * 20
    for more in ({}, {"prior": 0}, {"start_rows": 40}):
        on = dai.learn(rows, start=first, steps=20, held_out=0, **more)
        assert np.isfinite(on.report.log_likelihood)
        assert dai.query(on, {"a": "x"}).marginals["b"][1] > 0.2


def test_a_grid_is_learned_on(tmp_path):
    truth = dai.zoo.ising_lattice(side=2, sigma=0.7, seed=0)
    rows = frame_of(truth, 600)
    first = dai.learn(rows, "grid 2x2")
    dai.write(first, tmp_path / "first.dai")
    on = dai.learn(rows, start=tmp_path / "first.dai")
    assert on.report.steps <= 2 < first.report.steps
    assert on.report.log_likelihood == pytest.approx(first.report.log_likelihood, abs=1e-6)
    assert dai.learn(rows, "grid 2x2", start=first).report.steps <= 2
    with pytest.raises(dai.ModelError, match="has a factor in"):
        dai.learn(rows, "grid 4x1", start=first)
    with pytest.raises(dai.ConfigError, match="no directions"):
        dai.learn(rows, start=first, start_rows=10)


NETWORK = dai.learn([{"a": "x", "b": "0"}, {"a": "y", "b": "1"}] * 20, [("a", "b")])
PAIR = dai.learn([{"a": "x", "b": "0"}, {"a": "y", "b": "1"}] * 20, "grid 1x2")
OTHER = dai.learn([{"a": "x", "b": "0"}, {"a": "y", "b": "2"}] * 20, [("a", "b")])


@pytest.mark.parametrize(
    ("structure", "settings", "words"),
    [
        ("chow-liu", {}, "structure='chow-liu' looks for a tree.*leave it out"),
        ("independent", {}, r"parents of 'b' are \(\) in the structure, and \(a\) in"),
        ([("b", "a")], {}, r"parents of 'a' are \(b\)"),
        ([("a", "c")], {}, "names 'c', which the model to start from does not have"),
        (OTHER, {}, "'b' has other states in the model to start from"),
        ("grid 1x2", {}, "structure has none, and the model to start from has directions"),
        ([("a", "b")], {"start": PAIR}, "has directions, and the model to start from has none"),
        (None, {"start": 3}, "3 is no model"),
        (None, {"start": "none.bif"}, "there is no such file"),
        (None, {"start_rows": -1}, "start_rows is -1"),
        (None, {"start_rows": 5, "start": None}, "none is given: name it with start"),
        (None, {"bins": 2}, "states are given by a model"),
    ],
)
def test_what_does_not_agree_is_refused(structure, settings, words):
    with pytest.raises(dai.DeltaAIError, match=words):
        dai.learn([{"a": "x", "b": "0"}] * 20, structure, **{"start": NETWORK, **settings})


def test_a_structure_that_agrees_may_be_given():
    rows = [{"a": "x", "b": "0"}, {"a": None, "b": "1"}] * 20
    same = (None, [("a", "b")], {"b": "a"}, NETWORK)
    found = [dai.learn(rows, one, start=NETWORK, steps=3, held_out=0) for one in same]
    for model in found[1:]:
        assert torch.equal(tables(model)["b"], tables(found[0])["b"])


def test_learning_on_from_the_command_line(run, tmp_path):
    data, more = tmp_path / "d.csv", tmp_path / "more.csv"
    data.write_text("rain,wet\n" + "no,no\nyes,yes\nyes,?\n" * 20)
    more.write_text("rain,wet\n" + "no,no\n?,no\n" * 10)
    first, better = tmp_path / "m.dai", tmp_path / "better.dai"
    assert run("learn", data, "-o", first)[0] == 0
    code, out, err = run("learn", more, "--start", first, "--start-rows", 60, "-o", better)
    assert code == 0, err
    assert "counts as 60 rows" in " ".join(out.split())
    for words in (["query", better, "-e", "wet=no"], ["sample", better, "-n", 5]):
        assert run(*words)[0] == 0
    code, _, err = run("learn", more, "--start", first, "-o", first)
    assert (code, "a file that is read" in err) == (2, True)
    code, _, err = run("learn", more, "--start", first, "-o", better, "--structure", "chow-liu")
    assert (code, "leave it out to keep that of --start" in err) == (2, True)
