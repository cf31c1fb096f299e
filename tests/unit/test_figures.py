"""The paper's synthetic figures at scale smoke: every method runs, and rows make sense."""

import math

import pytest

from deltaai.experiments.figures import any_order, synthetic_gfn, synthetic_mcmc
from deltaai.experiments.harness.parts import SCALES
from deltaai.experiments.harness.registry import experiment_names, find_experiment

FIGURES = {
    "synthetic-gfn": synthetic_gfn,
    "any-order": any_order,
    "synthetic-mcmc": synthetic_mcmc,
}
SMOKE = [
    pytest.param(figure, part, id=f"{name}-{part.name}")
    for name, figure in FIGURES.items()
    for part in figure.EXPERIMENT.parts_at("smoke", 1)
]


@pytest.mark.parametrize(("figure", "part"), SMOKE)
def test_every_part_runs(figure, part):
    experiment = figure.EXPERIMENT
    rows = [row for row in experiment.run_part(part) if row.metric == experiment.metric]
    assert len(rows) >= 2
    assert rows[0].seconds <= rows[-1].seconds <= 10 + part.options["time_limit"]
    assert all(math.isfinite(row.value) for row in rows)
    if part.method != "exact":
        assert rows[-1].step > 0
        assert rows[0].step == rows[0].seconds == 0


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("scale", SCALES)
def test_each_scale_has_both_forms_of_delta_on_every_target(name, scale):
    experiment = find_experiment(name)
    parts = experiment.parts_at(scale, 3)
    assert {part.seed for part in parts} == {0, 1, 2}
    for model in {part.model for part in parts}:
        methods = {part.method for part in parts if part.model == model}
        assert {"delta", "delta-paper"} <= methods


def test_names_are_those_of_the_command():
    assert set(experiment_names()) == set(FIGURES)
    assert all(find_experiment(name).name == name for name in FIGURES)


def test_local_training_lowers_the_gap():
    (part,) = (
        part
        for part in synthetic_gfn.parts("smoke", 1)
        if (part.model, part.method) == ("factor-9", "delta")
    )
    gaps = [row.value for row in synthetic_gfn.run_part(part) if row.metric == "gap"]
    assert gaps[-1] < 0.5 * gaps[0]
