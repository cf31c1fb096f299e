"""Running experiments: parts in files, resuming, failures, and the files made of them."""

import csv
import datetime
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deltaai.errors import ConfigError, FormatError
from deltaai.experiments import Part
from deltaai.experiments.harness.part_files import read_part, read_parts
from deltaai.experiments.harness.plots import NoPlotError, write_plot
from deltaai.experiments.harness.registry import find_experiment
from deltaai.experiments.harness.reproduce import FolderError, reproduce
from deltaai.experiments.harness.results import curves_of
from deltaai.experiments.harness.summary import median_time, summary_text
from fake_experiment import EXPERIMENT


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Count how often each part was run, also by other processes."""
    folder = tmp_path / "calls"
    folder.mkdir()
    monkeypatch.setenv("FAKE_CALLS", str(folder))
    return lambda: {path.name: len(path.read_text()) for path in folder.iterdir()}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def run(out, **options):
    return reproduce(EXPERIMENT, out, **{"scale": "smoke", "num_seeds": 2, **options})


def test_a_run_writes_parts_table_picture_and_summary(out):
    watched = []
    done = run(out, command="deltaai reproduce fake", watch=watched.append)
    assert (done.num_run, done.num_kept, done.failures, done.remarks) == (12, 0, (), ())
    assert [path.name for path in done.files] == ["fake.csv", "fake.png", "fake.md"]
    assert [standing.num_done for standing in watched if standing.ended] == list(range(1, 13))
    assert watched[0].running[0].name == "ladder--delta--0"
    assert watched[0].seconds_left is None
    assert watched[-1].seconds_left == 0.0
    with (out / "fake.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 12 * 5
    assert rows[2] == {
        "figure": "fake",
        "model": "ladder",
        "method": "delta",
        "seed": "0",
        "step": "1",
        "seconds": "1.0",
        "metric": "gap",
        "value": "2.0",
    }
    picture = (out / "fake.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert 5_000 < len(picture) < 150_000


def test_part_files_say_what_made_them(out):
    run(out, num_seeds=1)
    path = out / "parts" / "ladder--tb--0.csv"
    header = json.loads(path.read_text().splitlines()[0].removeprefix("# "))
    assert header["experiment"] == "fake"
    assert header["part"]["settings"] == {"steps": 3}
    assert "torch" in header["machine"]
    finished = read_part(path)
    assert finished.part == Part("ladder", "tb", 0, "smoke", {"steps": 3})
    assert [row.value for row in finished.rows] == [1.0, 8.0, 2.0, 0.5, 0.125]


def test_an_interrupted_run_resumes_where_it_stopped(out, calls, monkeypatch):
    monkeypatch.setenv("FAKE_INTERRUPT", "lattice--tb--0")
    with pytest.raises(KeyboardInterrupt):
        run(out)
    assert len(read_parts(out)) == 8
    monkeypatch.delenv("FAKE_INTERRUPT")
    done = run(out, resume=True)
    assert (done.num_run, done.num_kept) == (4, 8)
    assert {name for name, count in calls().items() if count > 1} == {"lattice--tb--0"}
    before = (out / "fake.csv").read_bytes()
    (out / "fake.csv").unlink()
    done = run(out, resume=True)  # complete: only the files are built again
    assert (done.num_run, done.num_kept) == (0, 12)
    assert (out / "fake.csv").read_bytes() == before
    assert sum(calls().values()) == 13


def test_changed_settings_run_again_and_more_seeds_are_added(out, calls):
    run(out, num_seeds=1)
    path = out / "parts" / "ladder--tb--0.csv"
    path.write_text(path.read_text().replace('"steps": 3', '"steps": 2'))
    done = run(out, resume=True, num_seeds=1, only_methods=["delta"])
    assert done.num_run == 0
    assert "ladder--tb--0 is left out" in done.remarks[0]
    assert len(done.finished) == 5
    done = run(out, resume=True, num_seeds=2)
    assert done.num_run == 7
    assert calls()["ladder--tb--0"] == 2
    assert len(done.finished) == 12


def test_a_failing_part_does_not_stop_the_others(out, calls, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", "ladder--delta--1")
    done = run(out)
    assert [(each.part.name, each.error) for each in done.failures] == [
        ("ladder--delta--1", "the fake part fails")
    ]
    assert len(done.finished) == 11
    trace = out / "parts" / "ladder--delta--1.error.txt"
    assert "Traceback" in trace.read_text()
    assert "ladder--delta--1 failed: the fake part fails" in (out / "fake.md").read_text()
    monkeypatch.delenv("FAKE_FAILURE")
    done = run(out, resume=True)
    assert (done.num_run, done.failures) == (1, ())
    assert not trace.exists()


def test_a_part_without_rows_or_with_an_unexpected_error(out):
    empty = replace(EXPERIMENT, run_part=lambda part: iter(()))
    done = reproduce(empty, out, scale="smoke", num_seeds=1)
    assert len(done.failures) == 6
    assert done.failures[0].error == "the part yielded no rows"
    broken = replace(EXPERIMENT, run_part=lambda part: iter([1 / 0]))
    done = reproduce(broken, out, scale="smoke", num_seeds=1, resume=True)
    assert done.failures[0].error == "ZeroDivisionError: division by zero"


def test_other_processes_and_one_that_is_killed(out, monkeypatch):
    monkeypatch.setenv("FAKE_DEATH", "ladder--tb--0")
    done = run(out, num_seeds=1, jobs=2, only_models=["ladder"], only_methods=["delta", "tb"])
    assert [each.part.name for each in done.failures] == ["ladder--tb--0"]
    assert "died with exit code -9" in done.failures[0].error
    assert [each.part.name for each in done.finished] == ["ladder--delta--0"]
    assert done.finished[0].jobs == 2


def test_folders_that_are_refused(out, tmp_path):
    run(out, num_seeds=1, only_methods=["delta"])
    with pytest.raises(FolderError, match="not empty: continue what is there with --resume"):
        run(out)
    with pytest.raises(FolderError, match="at scale smoke, not of fake at scale paper"):
        run(out, scale="paper", resume=True)
    with pytest.raises(FolderError, match="results of fake at"):
        reproduce(replace(EXPERIMENT, name="other"), out, scale="smoke", resume=True)
    with pytest.raises(FolderError, match="holds no results"):
        run(tmp_path, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot use"):
        run(tmp_path / "file", resume=True)
    (out / "parts" / "ladder--delta--0.csv").write_text("nonsense\n")
    with pytest.raises(FormatError, match="delete it to run it again"):
        run(out, resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only_methods": ["dleta"]}, "no method 'dleta'.*did you mean 'delta'"),
        ({"only_models": ["tree"]}, r"no model 'tree' .*\(models: ladder, lattice\)"),
        ({"only_models": []}, "no model is named"),
        ({"scale": "huge"}, "choose one of smoke, small, paper"),
        ({"num_seeds": 0}, "at least 1"),
        ({"jobs": 0}, "number of jobs is 0"),
    ],
)
def test_bad_requests(out, options, message):
    with pytest.raises(ConfigError, match=message):
        run(out, **options)


def test_parts_are_checked():
    with pytest.raises(ConfigError, match="is no name"):
        Part("a/b", "delta", 0, "smoke")
    unlabelled = replace(EXPERIMENT, method_labels={"delta": "Delta-AI"})
    with pytest.raises(ConfigError, match="has no label"):
        unlabelled.parts_at("smoke", 1)
    double = replace(EXPERIMENT, parts=lambda scale, seeds: EXPERIMENT.parts(scale, 1) * 2)
    with pytest.raises(ConfigError, match="same model, method and seed"):
        double.parts_at("smoke", 1)


def test_the_summary_tells_values_times_and_ratios(out):
    finished = run(out).finished
    text = summary_text(
        EXPERIMENT, finished, command="deltaai reproduce fake", today=datetime.date(2024, 5, 6)
    )
    for expected in (
        "# A fake figure",
        "## Ladder, 4 variables",
        "| method | seeds | final value | run time | time to 1 | time to 0.5 |",
        # steps at 0, 1, 2, ... for one seed and 0, 1.1, 2.2, ... for the other: medians of two
        "| Delta-AI | 2 | 0.125 ± 0 | 3.15 s | 2.1 s | 2.1 s |",
        "| TB | 2 | 0.125 ± 0 | 12.6 s | 8.4 s (4x) | 8.4 s (4x) |",
        "| Slow | 2 | 1.125 ± 0 | 12.6 s | not reached | not reached |",
        "Ground truth: exact samples.",
        "Ground truth: annealed Gibbs chains.",
        "Nothing was trained.",
        "- Scale: smoke",
        "1 part(s) at a time",
        "- Command: `deltaai reproduce fake`",
        "- Date: 2024-05-06",
    ):
        assert expected in text
    assert str(Path.home()) not in text


def test_a_value_that_only_some_seeds_reach():
    experiment = replace(EXPERIMENT, thresholds=(0.2,))
    finished = list(_finished_in_memory((3, 1, 3)))
    curves = curves_of(finished, "gap")["ladder"]["delta"]
    assert median_time(curves, 0.2) == pytest.approx(3.6)
    text = summary_text(experiment, finished, command="")
    assert "3.6 s [2 of 3]" in text
    finished = list(_finished_in_memory((3, 1, 1)))
    assert "not reached [1 of 3]" in summary_text(experiment, finished, command="")


def _finished_in_memory(steps_of_seeds):
    from deltaai.experiments.harness.part_files import FinishedPart

    for seed, steps in enumerate(steps_of_seeds):
        part = Part("ladder", "delta", seed, "smoke", {"steps": steps})
        rows = tuple(EXPERIMENT.run_part(part))
        yield FinishedPart("fake", part, rows, 1.0, 1, "2 cores")


def test_no_matplotlib_no_picture_but_the_rest(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run(out, num_seeds=1)
    assert [path.name for path in done.files] == ["fake.csv", "fake.md"]
    assert "pip install 'deltaai[plots]'" in done.remarks[0]
    with pytest.raises(NoPlotError):
        write_plot(out / "x.png", EXPERIMENT, done.finished)


def test_pictures_of_odd_values(out):
    from deltaai.experiments import Row

    def odd(part):
        values = [float("inf"), -1.0, 0.5, float("nan")]
        for step, value in enumerate(values if part.seed else values[1:]):
            yield Row(step, 0.0 if part.method == "tb" else step, "gap", value)

    experiment = replace(EXPERIMENT, run_part=odd)
    done = reproduce(experiment, out, scale="smoke", num_seeds=2)
    assert (out / "fake.png").read_bytes().startswith(b"\x89PNG")
    assert "not finite" in (out / "fake.md").read_text()
    linear = replace(experiment, is_log_value=False, is_log_time=False)
    write_plot(out / "linear.png", linear, done.finished)
    write_plot(out / "none.png", linear, [])


def test_unknown_experiments():
    with pytest.raises(ConfigError, match="no experiment 'synthetic-gnf'; did you mean"):
        find_experiment("synthetic-gnf")
