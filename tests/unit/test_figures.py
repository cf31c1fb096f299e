"""The paper's synthetic figures at scale smoke: every method runs, and rows make sense."""

import math
from dataclasses import replace

import pytest

from deltaai.experiments import Part, Row
from deltaai.experiments.figures import any_order, ebm_recovery, synthetic_gfn, synthetic_mcmc
from deltaai.experiments.harness.curves import training_curve
from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.parts import SCALES
from deltaai.experiments.harness.plots import write_plot
from deltaai.experiments.harness.registry import experiment_names, find_experiment
from deltaai.experiments.harness.samplers import structured
from deltaai.experiments.harness.summary import summary_text
from deltaai.experiments.harness.targets import target
from deltaai.fitting import Sampler, set_up_run
from deltaai.training import phases

FIGURES = {
    "synthetic-gfn": synthetic_gfn,
    "any-order": any_order,
    "synthetic-mcmc": synthetic_mcmc,
    "ebm-recovery": ebm_recovery,
}
SAMPLERS = [name for name in FIGURES if name != "ebm-recovery"]  # figures that train samplers
SMOKE = [
    pytest.param(figure, part, id=f"{name}-{part.name}")
    for name, figure in FIGURES.items()
    for part in figure.EXPERIMENT.parts_at("smoke", 1)
]


@pytest.mark.parametrize(("figure", "part"), SMOKE)
def test_every_part_runs(figure, part):
    """Each uses all of the time that it has, so here it has less."""
    experiment = figure.EXPERIMENT
    if "time_limit" in part.options:
        part = replace(part, settings={**part.options, "time_limit": 0.2})
    rows = [row for row in experiment.run_part(part) if row.metric == experiment.metric]
    assert len(rows) >= 2
    assert rows[0].seconds <= rows[-1].seconds <= 10 + part.options.get("time_limit", 0.3)
    assert all(math.isfinite(row.value) for row in rows)
    if part.method != "exact":
        assert rows[-1].step > 0
        assert rows[0].step == rows[0].seconds == 0


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("scale", SCALES)
def test_each_scale_has_both_forms_of_delta_on_every_target(name, scale):
    experiment = find_experiment(name)
    parts = experiment.parts_at(scale, 3)
    assert {part.seed for part in parts} == {0, 1, 2}
    for model in {part.model for part in parts}:
        methods = {part.method for part in parts if part.model == model}
        assert {"delta", "delta-paper"} <= methods


def test_names_are_those_of_the_command():
    assert set(FIGURES) < set(experiment_names())
    assert all(find_experiment(name).name == name for name in experiment_names())


def test_local_training_lowers_the_gap():
    (part,) = (
        part
        for part in synthetic_gfn.parts("smoke", 1)
        if (part.model, part.method) == ("factor-9", "delta")
    )
    gaps = [row.value for row in synthetic_gfn.run_part(part) if row.metric == "gap"]
    assert gaps[-1] < 0.5 * gaps[0]


def differing(first, second):
    """Names of the settings in which two runs differ."""
    one, other = first.config.to_dict(), second.config.to_dict()
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("orders", ["one", "many"])
def test_trajectory_balance_with_our_conditionals_has_the_same_phases(orders):
    model = target("lattice-9", 2.0, 0)
    ours, balance = (
        structured(model, method, orders, 0, {})[0] for method in ("delta", "tb-local")
    )
    assert differing(ours, balance) == {"objective", "log_partition"}
    assert [phase.steps for phase in ours.phases] == [phase.steps for phase in balance.phases]
    assert len(ours.phases) == 2
    longer, _ = structured(model, "tb-local", orders, 0, {"steps": 2000})
    assert [phase.steps for phase in longer.phases] == [2000, ours.phases[1].steps]


@pytest.mark.parametrize("scale", SCALES)
def test_local_updates_only_may_use_all_of_the_time(scale):
    parts = {part.name: part for part in synthetic_mcmc.EXPERIMENT.parts_at(scale, 1)}
    alone = [part for part in parts.values() if part.method == "delta-unpolished"]
    assert alone
    for part in alone:
        whole = parts[part.name.replace("-unpolished", "")]
        assert part.options["time_limit"] == whole.options["time_limit"]
        assert part.options["steps"] > 10 * part.options["time_limit"]
    model = target("lattice-9", 2.0, 0)
    trainer, _ = structured(model, "delta-unpolished", "one", 0, {"steps": 2000})
    assert len(trainer.phases) == 1
    config = trainer.config
    assert (config.steps, config.anneal_steps, config.target_ess) == (2000, 1200, None)


def phase_rows(polish_rate, time_limit=60.0, polish_steps=40):
    """Rows of a run with one local update, and a global phase that has all there is to gain."""
    _, sampler = structured(target("lattice-9", 2.0, 0), "delta", "one", 0, {})
    config = replace(
        sampler.config,
        steps=1,
        anneal_steps=0,
        polish_steps=polish_steps,
        polish_rate=polish_rate,
        target_ess=None,
    )
    short = Sampler(sampler.model, sampler.proposal, sampler.orders, config, sampler.spec)
    rows = training_curve(set_up_run(short), lambda: {"gap": 1.0}, time_limit)
    return [row for row in rows if row.metric.startswith("is_global")]


def test_rows_say_when_the_global_phase_begins_and_that_it_stays():
    *told, last = phase_rows(polish_rate=3e-2)
    assert (told[0].step, told[0].value) == (0, 0.0)
    begun = next(row for row in told if row.value)
    assert begun.step == 2  # the first update after the local one
    assert told[-1].value == 1.0
    assert (last.metric, last.value) == ("is_global_phase_undone", 0.0)


def test_rows_say_that_the_global_phase_was_undone():
    *told, last = phase_rows(polish_rate=100.0)
    assert told[-1].value == 1.0
    assert (last.metric, last.value) == ("is_global_phase_undone", 1.0)


def test_rows_say_that_there_was_no_global_phase(monkeypatch):
    *told, last = phase_rows(polish_rate=3e-2, time_limit=0.0)
    assert {row.value for row in [*told, last]} == {0.0}
    monkeypatch.setattr(phases, "WORTH_BELOW", 0.0)
    *told, last = phase_rows(polish_rate=3e-2)
    assert {row.value for row in [*told, last]} == {0.0}


def test_runs_of_one_phase_say_nothing_of_phases():
    (part,) = (
        part
        for part in synthetic_mcmc.parts("smoke", 1)
        if (part.model, part.method) == ("lattice-9", "delta-unpolished")
    )
    assert not [row for row in synthetic_mcmc.run_part(part) if row.metric.startswith("is_global")]


def test_the_summary_and_the_picture_tell_of_global_phases(tmp_path):
    finished = []
    for seed, start in enumerate((2.0, 4.0, None)):
        part = Part("lattice-9", "delta", seed, "smoke")
        rows = [Row(step, float(step), "mmd", 9.0 - step) for step in range(6)]
        for step in range(6):
            is_global = start is not None and step >= start
            rows.append(Row(step, float(step), "is_global_phase", float(is_global)))
        rows.append(Row(5, 5.0, "is_global_phase_undone", float(seed == 1)))
        finished.append(FinishedPart("synthetic-mcmc", part, tuple(rows), 5.0, 1, "2 cores"))
    experiment = synthetic_mcmc.EXPERIMENT
    text = summary_text(experiment, finished, command="")
    assert "in 2 of 3 runs, from 3 s on (median of these), undone in 1." in text
    write_plot(tmp_path / "with.png", experiment, finished)
    bare = [
        replace(each, rows=tuple(row for row in each.rows if row.metric == "mmd"))
        for each in finished
    ]
    write_plot(tmp_path / "without.png", experiment, bare)
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()
    assert "Global phase of" not in summary_text(experiment, bare, command="")
