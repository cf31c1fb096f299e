"""Figures of images: parts, curves that survive a kill, grids, options of the command."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.experiments import Surroundings, find_experiment
from deltaai.experiments.figures import digits
from deltaai.experiments.harness import image_figure, learner_curve
from deltaai.experiments.harness.image_grids import mosaic
from deltaai.experiments.harness.image_judge import ImageJudge, kept_classifier
from deltaai.experiments.harness.image_methods import LABELS, LEARNERS
from deltaai.experiments.harness.parts import SCALES
from deltaai.experiments.harness.reproduce import reproduce
from deltaai.io import ImageSet, image_set
from deltaai.metrics import train_classifier

FIGURES = ("mnist", "mnist-compare", "one-vs-many-orders", "digits")
EXPERIMENT = digits.EXPERIMENT


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    """Tensors here are small."""


def small_part(**settings):
    (part,) = (part for part in EXPERIMENT.parts_at("smoke", 1) if part.method == "vae")
    own = {"time_limit": 60.0, "updates": 30, "hidden": 16, "classifier_updates": 5}
    return replace(part, settings={**part.options, **own, **settings})


@pytest.mark.parametrize("name", FIGURES)
def test_every_scale_has_settings_for_every_part(name):
    experiment = find_experiment(name)
    for scale in SCALES:
        for part in experiment.parts_at(scale, 2):
            assert {"curve_images", "many_images", "time_limit", "updates"} <= set(part.options)
            assert part.method in LEARNERS
    assert set(experiment.method_labels) <= set(LABELS)


def test_a_figure_from_one_call(tmp_path):
    quick = replace(EXPERIMENT, parts=lambda scale, seeds: [small_part()])
    done = reproduce(quick, tmp_path, scale="smoke", only_methods=["vae"])
    assert (done.num_run, done.failures) == (1, ())
    assert [path.name for path in done.files] == [
        "digits.csv",
        "digits.png",
        "digits-entropy.png",
        "digits-samples.png",
        "digits-reconstructions.png",
        "digits.md",
    ]
    for path in done.files:
        assert path.stat().st_size > 500
    text = (tmp_path / "digits.md").read_text()
    assert "| method | IW-100 | IW-100, some images | IW-5000, some images | entropy |" in text
    assert "Accuracy of the classifier on the test images 0." in text
    assert "Ground truth" not in text
    rows = {row.metric: row for row in done.finished[0].rows}
    assert rows["num_updates"].value == 30
    assert rows["nll_5000_of_some"].value <= rows["nll_100_of_some"].value
    assert all(math.isfinite(row.value) for row in rows.values())
    assert rows["parameters_p"].value > rows["num_updates"].value


class Killed(BaseException):
    """What a kill looks like from inside."""


def test_a_part_that_is_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    # Times are spread by the clock, so here each measurement comes after some updates.
    monkeypatch.setattr(learner_curve._Run, "next_due", property(lambda run: math.inf))

    def train(run, seconds):
        run.learner.run(updates=run.learner.num_updates + 10)
        if run.learner.num_updates == kill_at:
            raise Killed

    monkeypatch.setattr(learner_curve._Run, "train", train)
    part = small_part()
    whole, killed = (Surroundings(tmp_path / name) for name in ("whole", "killed"))
    for each in (whole, killed):
        each.folder.mkdir()
    kill_at = None
    expected = list(image_figure.run_image_part(part, whole))
    kill_at = 20
    with pytest.raises(Killed):
        list(image_figure.run_image_part(part, killed))
    kill_at = None
    found = list(image_figure.run_image_part(part, killed))

    def values(rows):
        return [(row.step, row.metric, row.value) for row in rows if row.metric != "cpu_seconds"]

    assert values(found) == values(expected)
    assert {row.step for row in found} == {0, 30}


def test_what_was_measured_after_the_last_checkpoint_is_measured_again(tmp_path):
    part, images = small_part(), image_set("digits")
    judge = ImageJudge.of(images, train_classifier(images, updates=2), part.options)
    learner = LEARNERS["vae"](images, part.options, 0)
    rows = list(learner_curve.learner_curve(part, learner, judge, tmp_path))
    assert rows[0].step == rows[0].seconds == 0
    late = [replace(row, seconds=row.seconds + 1e6) for row in rows]
    path = tmp_path / "digits--vae--0.checkpoint"
    again = LEARNERS["vae"](images, part.options, 0)
    kept = learner_curve._taken_up(part, again, tmp_path, path)
    assert again.num_updates == 30
    learner_curve._keep(part, rows + late, learner, tmp_path, path)
    assert learner_curve._taken_up(part, again, tmp_path, path)[: len(kept)] == kept
    other = small_part(num_drawn=3)
    assert learner_curve._taken_up(other, again, tmp_path, path) == []
    assert not path.exists()


def test_the_classifier_is_trained_once(tmp_path, monkeypatch):
    images = image_set("digits")
    first = kept_classifier(images, 5, tmp_path)
    monkeypatch.setattr(
        "deltaai.experiments.harness.image_judge.train_classifier", lambda *_, **__: 1 / 0
    )
    second = kept_classifier(images, 5, tmp_path)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ZeroDivisionError):
        kept_classifier(images, 6, tmp_path)


def test_measurements_are_spread_over_the_time():
    part = small_part(time_limit=60.0, updates=0)
    learner = LEARNERS["vae"](image_set("digits"), part.options, 0)
    run = learner_curve._Run(part, learner)
    times = []
    while not run.is_over:
        learner.seconds = run.next_due
        times.append(learner.seconds)
    assert times[0] == pytest.approx(1.0)
    assert times[-1] == 60.0
    assert 8 <= len(times) <= 12
    ratios = np.array(times[1:]) / np.array(times[:-1])
    assert ratios.min() > 1.2


def test_processor_time_is_the_time_of_updates(tmp_path):
    part = small_part(time_limit=0.4, updates=0, clock="processor")
    learner = LEARNERS["vae"](image_set("digits"), part.options, 0)
    learner.clock = learner_curve.CLOCKS["processor"]
    update, begun = learner._update, time.perf_counter()

    def slow_update(rate):
        time.sleep(0.02)  # as if others had the core
        update(rate)

    learner._update = slow_update
    learner.run(seconds=0.2)
    assert 0.2 <= learner.seconds < 0.5 * (time.perf_counter() - begun)
    quick = replace(EXPERIMENT, parts=lambda scale, seeds: [small_part()])
    done = reproduce(quick, tmp_path, scale="smoke", only_methods=["vae"], clock="processor")
    assert done.finished[0].part.options["clock"] == "processor"
    assert "clock (processor time)" in done.files[-1].read_text()
    with pytest.raises(ConfigError, match="clock"):
        reproduce(quick, tmp_path / "o", scale="smoke", clock="sundial")


def test_a_mosaic_has_every_image_in_its_place():
    images = torch.arange(3.0)[:, None].expand(3, 4) / 2
    drawn = mosaic(images, 2, 2)
    assert drawn.shape == (5, 5)
    assert drawn[:2, 3:].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert drawn[3:, :2].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert drawn[2, 2] == drawn[4, 4] == pytest.approx(0.25)


def test_options_that_a_figure_does_not_take(tmp_path):
    synthetic = find_experiment("any-order")
    with pytest.raises(ConfigError, match="any-order does not take time_limit: its parts have"):
        reproduce(synthetic, tmp_path / "o", time_limit=3.0)
    with pytest.raises(ConfigError, match="digits does not take data_dir: it reads no data"):
        reproduce(EXPERIMENT, tmp_path / "o", data_dir=tmp_path)
    assert not (tmp_path / "o").exists()


def test_a_part_without_data_fails_with_one_line(tmp_path):
    experiment = find_experiment("mnist")
    done = reproduce(
        experiment, tmp_path / "o", scale="smoke", only_methods=["vae"], data_dir=tmp_path
    )
    assert "no MNIST here or in its folder mnist" in done.failures[0].error


def test_the_judge_draws_the_same_pixels_for_everybody():
    labels = torch.zeros(30, dtype=torch.int64)
    grey = torch.rand(30, 64, generator=torch.Generator().manual_seed(0))
    images = ImageSet("noise", 8, grey, labels, grey, labels)
    classifier = train_classifier(images, updates=1)
    one, other = (ImageJudge.of(images, classifier, {}) for _ in range(2))
    assert torch.equal(one.pixels, other.pixels)
    assert torch.equal(one.grey.sort(0).values, grey.sort(0).values)
    assert not torch.equal(one.grey, grey)
