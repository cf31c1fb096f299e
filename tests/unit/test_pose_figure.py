"""The figure of poses: parts, the judge, a run that is killed, pictures, options of the command."""

import math
import time
from dataclasses import replace

import pytest
import torch
from matplotlib.figure import Figure

from deltaai.errors import ConfigError, StateError, TrainingError
from deltaai.experiments import Surroundings, find_experiment
from deltaai.experiments.figures import poses as figure
from deltaai.experiments.harness import learner_curve, plots
from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.parts import SCALES, Row
from deltaai.experiments.harness.pose_judge import NUM_EXAMPLES, PoseJudge
from deltaai.experiments.harness.pose_methods import LABELS, LEARNERS
from deltaai.experiments.harness.reproduce import reproduce
from deltaai.experiments.harness.results import curves_of, with_levels
from deltaai.experiments.harness.skeleton_pictures import (
    kept_skeletons,
    read_skeletons,
    write_skeletons,
)
from deltaai.io import PoseSet, ScaledPoses, synthetic_poses
from deltaai.learning import IndependentRows, RowLearner
from deltaai.metrics import real_linear_mmd_distance
from deltaai.randomness import generator_of

EXPERIMENT = figure.EXPERIMENT
OPTIONS = {"most_judged": 1000}


@pytest.fixture(scope="module")
def scaled():
    return ScaledPoses.of(synthetic_poses(num_clips=30))


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    """Tensors here are small."""


def chosen_parts(model="synthetic-one", **settings):
    found = [part for part in EXPERIMENT.parts_at("smoke", 1) if part.model == model]
    return [replace(part, settings={**part.options, **settings}) for part in found]


def test_every_scale_has_settings_for_every_part():
    assert find_experiment("poses") is EXPERIMENT
    for scale in SCALES:
        parts = EXPERIMENT.parts_at(scale, 2)
        for part in parts:
            assert part.model == f"{part.options['data']}-{part.options['orders']}"
            assert {"time_limit", "updates", "most_judged"} <= set(part.options)
            assert part.method in LEARNERS
        assert {part.model for part in parts} == set(EXPERIMENT.model_labels)
    assert set(LEARNERS) <= set(LABELS)
    assert set(EXPERIMENT.default_models) <= set(EXPERIMENT.model_labels)


def test_a_figure_from_one_call(tmp_path):
    done = reproduce(
        EXPERIMENT,
        tmp_path,
        scale="smoke",
        num_seeds=2,
        only_models=["synthetic-one"],
        only_methods=["independent"],
        orders="one",
    )
    assert (done.num_run, done.failures) == (2, ())
    assert [path.name for path in done.files] == [
        "poses.csv",
        "poses.png",
        "poses-rbf_mmd.png",
        "poses-skeletons.png",
        "poses.md",
    ]
    for path in done.files:
        assert path.stat().st_size > 500
    rows = {row.metric: row for row in done.finished[0].rows}
    assert all(math.isfinite(row.value) for row in rows.values())
    assert rows["num_updates"].value == 10
    assert rows["linear_mmd"].value < 1
    ratio = rows["linear_mmd"].value / rows["linear_mmd_of_halves"].value
    assert rows["linear_mmd_over_halves"].value == pytest.approx(ratio)
    text = (tmp_path / "poses.md").read_text()
    assert "| independent angles | 2 |" in text
    assert f"| test data, random halves |  | {rows['linear_mmd_of_halves'].value:g} |" in text
    assert "RBF MMD between random halves 0." in text
    assert "Ground truth" not in text


def test_a_method_that_takes_no_time_is_a_level_line():
    (own,) = (part for part in chosen_parts() if part.method == "independent")
    other = replace(own, method="delta")
    short = [Row(0, 0.0, "linear_mmd", 1.0), Row(1, 1e-3, "linear_mmd", 0.2)]
    facts = [Row(0, 0.0, "linear_mmd_of_halves", 0.04)]
    long = [Row(step, 1.5**step, "linear_mmd", 1 / (1 + step)) for step in range(12)]
    finished = [
        FinishedPart("poses", own, tuple(short + facts), 1.0, 1, "2 cores"),
        FinishedPart("poses", other, tuple(long), 99.0, 1, "2 cores"),
    ]
    shown = with_levels(EXPERIMENT, finished)
    assert shown.references == {"synthetic-one": {"test data, random halves": 0.04}}
    axes = Figure().subplots()
    found, colours = curves_of(finished, "linear_mmd"), plots.method_colours(LABELS)
    methods = found["synthetic-one"]
    drawn = plots._draw_panel(axes, shown, "synthetic-one", methods, colours, {})
    assert set(drawn) == {"delta", "independent", "test data, random halves"}
    assert list(drawn["independent"].get_ydata()) == [0.2, 0.2]
    assert axes.get_xlim()[0] > 0.5  # the millisecond of the level line is not on the axis
    only = {"independent": methods["independent"]}
    alone = plots._draw_panel(Figure().subplots(), EXPERIMENT, "synthetic-one", only, colours, {})
    assert set(alone) == {"independent"}


def test_orders_choose_parts(tmp_path):
    both = ["synthetic-one", "synthetic-many"]
    call = {"scale": "smoke", "num_seeds": 1, "only_models": both, "only_methods": ["independent"]}
    done = reproduce(EXPERIMENT, tmp_path / "o", orders="many", **call)
    assert [each.part.model for each in done.finished] == ["synthetic-many"]
    done = reproduce(EXPERIMENT, tmp_path / "o", resume=True, **call)
    assert (done.num_run, done.num_kept) == (1, 1)
    assert {"poses-synthetic-one-skeletons.png", "poses-synthetic-many-skeletons.png"} <= {
        path.name for path in done.files
    }
    with pytest.raises(ConfigError, match="orders is 'Many'; did you mean 'many'"):
        reproduce(EXPERIMENT, tmp_path / "p", orders="Many", **call)
    with pytest.raises(ConfigError, match="digits does not take orders"):
        reproduce(find_experiment("digits"), tmp_path / "p", orders="one")
    assert not (tmp_path / "p").exists()


def test_without_data_a_part_fails_with_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("DELTAAI_DATA_DIR", raising=False)
    call = {"scale": "smoke", "num_seeds": 1, "orders": "one"}
    done = reproduce(EXPERIMENT, tmp_path / "o", **call)
    assert [each.part.model for each in done.failures] == ["cmu-one"] * len(LEARNERS)
    assert "data_dir" in done.failures[0].error
    done = reproduce(EXPERIMENT, tmp_path / "p", data_dir=tmp_path, **call)
    assert "no poses of CMU here" in done.failures[0].error


class Killed(BaseException):
    """What a kill looks like from inside."""


def test_a_part_that_is_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_curve._Run, "next_due", property(lambda run: math.inf))

    def train(run, seconds):
        run.learner.run(updates=run.learner.num_updates + 2)
        if run.learner.num_updates == kill_at:
            raise Killed

    monkeypatch.setattr(learner_curve._Run, "train", train)
    (part,) = (p for p in chosen_parts(time_limit=60.0) if p.method == "independent")
    whole, killed = (Surroundings(tmp_path / name) for name in ("whole", "killed"))
    for each in (whole, killed):
        each.folder.mkdir()
    kill_at = None
    expected = list(figure.run_part(part, whole))
    kill_at = 4
    with pytest.raises(Killed):
        list(figure.run_part(part, killed))
    kill_at = None
    found = list(figure.run_part(part, killed))

    def values(rows):
        return [(row.step, row.metric, row.value) for row in rows if row.metric != "cpu_seconds"]

    assert values(found) == values(expected)
    assert {row.step for row in found} == {0, 10}


def test_independent_rows_are_those_of_their_columns(scaled):
    learner = IndependentRows(scaled.train, updates=7)
    assert isinstance(learner, RowLearner)
    learner.run(updates=3)
    assert learner.num_updates == 3
    learner.run()
    drawn = learner.sample(4000, generator_of(0))
    assert float(drawn.abs().max()) <= 1
    assert float((drawn.mean(0) - scaled.train.mean(0)).abs().max()) < 0.05
    inside = (scaled.train.abs().max(0).values < 0.9).nonzero().squeeze(1)
    assert torch.allclose(drawn.std(0)[inside], scaled.train.std(0)[inside], atol=0.03)
    assert float(torch.corrcoef(drawn.T).fill_diagonal_(0).abs().max()) < 0.1
    mean = learner.sample(10, generator_of(1))
    learner.run(updates=20)
    assert torch.equal(learner.sample(10, generator_of(1)), mean)


def test_independent_rows_are_saved_and_refused(scaled, tmp_path, as_a_user_runs_it):
    learner = IndependentRows(scaled.train)
    learner.run(updates=4)
    learner.save(tmp_path / "run")
    again = IndependentRows(scaled.train)
    again.restore(tmp_path / "run")
    assert (again.num_updates, again.seconds) == (learner.num_updates, learner.seconds)
    for one in (learner, again):
        one.run()
    assert torch.equal(learner.sample(3, generator_of(0)), again.sample(3, generator_of(0)))
    with pytest.raises(TrainingError):
        IndependentRows(scaled.test).restore(tmp_path / "run")
    for rows in (scaled.train[:1], 2 * scaled.train, scaled.train[0], scaled.train * math.nan):
        with pytest.raises(StateError, match="give at least two"):
            IndependentRows(rows)
    with pytest.raises(ConfigError, match="updates is 0"):
        IndependentRows(scaled.train, updates=0)


class Exactly:
    """A learner that draws given rows."""

    num_updates, seconds, clock = 0, 0.0, time.perf_counter
    num_parameters = {"p": 1, "q": 2}  # noqa: RUF012

    def __init__(self, rows):
        self.rows = rows

    def sample(self, number, generator):
        chosen = torch.randint(len(self.rows), (number,), generator=generator)
        return self.rows[chosen]

    def run(self, **_):
        """It knows all."""

    save = restore = run


def test_the_judge_tells_good_from_bad(scaled):
    judge = PoseJudge.of(scaled, OPTIONS)
    good, bad = judge.on_the_way(Exactly(scaled.test)), judge.on_the_way(Exactly(-scaled.test))
    independent = IndependentRows(scaled.train)
    independent.run()
    unrelated = judge.on_the_way(independent)
    of_the_data = judge.of_the_data()
    assert good["linear_mmd"] < bad["linear_mmd"]
    assert good["rbf_mmd"] < unrelated["rbf_mmd"] < bad["rbf_mmd"]
    assert of_the_data["linear_mmd_of_halves"] < of_the_data["linear_mmd_of_clips"]
    at_the_end = judge.at_the_end(Exactly(scaled.test))
    assert at_the_end["linear_mmd_over_halves"] < 1.2
    assert at_the_end["parameters_q"] == 2
    other = PoseJudge.of(scaled, OPTIONS, seed=1)
    assert other.on_the_way(Exactly(scaled.test)) != good
    assert other.of_the_data() == of_the_data


def test_distances_are_to_the_rows_that_are_judged_by(scaled):
    judge = PoseJudge.of(scaled, {"most_judged": 20})
    assert len(judge.test) == len(judge.clips) == 20
    fixed = Exactly(scaled.train[:1])
    found = judge.on_the_way(fixed)["linear_mmd"]
    assert found == pytest.approx(real_linear_mmd_distance(scaled.train[:1], judge.test))


def test_people_are_kept_upright_and_face_the_viewer(scaled, tmp_path):
    path = tmp_path / "people"
    poses = scaled.poses
    kept_skeletons(scaled, {"samples": scaled.test[:NUM_EXAMPLES]}, path)
    people = read_skeletons(path)["samples"]
    assert len(people) == NUM_EXAMPLES
    for bones in people:
        heights = {bone.joint: bone.ends[:, 1].mean() for bone in bones}
        assert heights["head"] > heights["left_knee"] > heights["left_foot"]
        assert min(bone.ends[:, 1].min() for bone in bones) == pytest.approx(0.0)
        shoulders = {b.joint: b.ends[1, 0] for b in bones if b.joint.endswith("shoulder")}
        assert shoulders["left_shoulder"] > shoulders["right_shoulder"]  # as one faces somebody
    # The same people where z points up: turned by a quarter about x, they are drawn alike.
    quarter = torch.tensor([math.pi / 2, 0.0, 0.0], dtype=torch.float64)
    from deltaai.io import rotation_angles, rotation_matrices

    angles = poses.angles.clone()
    angles[:, 0] = rotation_angles(rotation_matrices(quarter) @ rotation_matrices(angles[:, 0]))
    turned = ScaledPoses.of(
        PoseSet("turned", poses.skeleton, angles, poses.clips, up="z"), tail=0.0, margin=0.2
    )
    straight = ScaledPoses.of(poses, tail=0.0, margin=0.2)
    drawn = []
    for each, set_of in ((straight, poses.angles), (turned, angles)):
        kept_skeletons(each, {"samples": each.rows_of(set_of[:5])}, path)
        drawn.append(read_skeletons(path)["samples"])
    for one, other in zip(*drawn, strict=True):
        for bone, same in zip(one, other, strict=True):
            assert bone.ends == pytest.approx(same.ends, abs=1e-6)
    write_skeletons(tmp_path / "people.png", "People", {"these": people, "and": people[:3]})
    assert (tmp_path / "people.png").stat().st_size > 5000
