"""``deltaai reproduce`` as a user meets it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from deltaai.experiments.harness import registry


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(registry, "MODULES", {"fake": "fake_experiment"})


def test_reproduce_prints_the_summary_and_the_files(run, tmp_path):
    out = tmp_path / "results"
    arguments = ("reproduce", "fake", "--scale", "smoke", "--seeds", 2, "--jobs", 1, "--out", out)
    code, text, err = run(*arguments)
    assert code == 0
    assert "| Slow | 2 | 1.125 ± 0 | 12.6 s | not reached | not reached |" in text
    command = "deltaai reproduce fake --scale smoke --seeds 2 --jobs 1 --out results"
    assert f"- Command: `{command}`" in text
    assert "12 parts run, 0 already there" in text
    for kind in ("csv", "png", "md"):
        assert f"wrote {out}/fake.{kind}" in text
    assert "\x1b" not in text + err
    assert err.splitlines()[0].startswith("[1/12] ladder--delta--0 ")
    assert len(err.splitlines()) == 12
    code, _, err = run(*arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert "--resume" in err
    assert err.count("\n") == 1
    code, text, err = run(*arguments, "--resume")
    assert (code, err) == (0, "")
    assert "0 parts run, 12 already there" in text


def test_only_some_methods_and_models(run, tmp_path):
    arguments = ("reproduce", "fake", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    chosen = ("--only-methods", "delta, tb", "--only-models", "lattice")
    code, text, _ = run(*arguments, "-o", tmp_path / "out", *chosen)
    assert code == 0
    assert "2 parts run" in text
    assert "Ladder" not in text


def test_all_methods_by_one_word(run, tmp_path):
    arguments = ("reproduce", "fake", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    code, text, _ = run(*arguments, "-o", tmp_path / "out", "--method", "all")
    assert code == 0
    assert "6 parts run" in text


def test_orders_of_the_figure_of_poses(run, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "MODULES", {"poses": "deltaai.experiments.figures.poses"})
    arguments = ("reproduce", "poses", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    chosen = ("--only-models", "synthetic-one,synthetic-many", "--method", "independent")
    code, text, _ = run(*arguments, *chosen, "--orders", "many", "-o", tmp_path / "out")
    assert code == 0
    assert "1 part run" in text
    assert "--orders many" in text
    assert "made-up poses, many orders" in text
    code, _, err = run(*arguments, "--orders", "some", "-o", tmp_path / "other")
    assert code == 2
    assert err == "error: --orders is 'some'; one of one, many\n"
    code, _, err = run(*arguments, "--orders", "one", "--data-dir", tmp_path, "-o", tmp_path / "o")
    assert code == 1
    assert "no poses of CMU here or in its folder poses" in err
    assert "Traceback" not in err


def test_a_failing_part_gives_code_1(run, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", "ladder--tb--0")
    arguments = ("reproduce", "fake", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    code, text, err = run(*arguments, "--out", tmp_path / "out")
    assert code == 1
    assert "wrote" in text
    assert "ladder--tb--0 failed: the fake part fails" in err
    assert "1 part failed" in err
    assert "Traceback" not in err


def test_missing_matplotlib_is_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = ("reproduce", "fake", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    code, text, err = run(*arguments, "--out", tmp_path / "out")
    assert code == 0
    assert "fake.png" not in text
    assert sum("deltaai[plots]" in line for line in err.splitlines()) == 1


def test_list_and_bad_requests(run, tmp_path):
    code, text, _ = run("reproduce", "--list")
    assert code == 0
    assert "fake" in text
    assert "Three methods that halve a number." in text
    for arguments, message in (
        ((), "name an experiment: fake"),
        (("fakes", "--out", tmp_path / "o"), "no experiment 'fakes'; did you mean 'fake'?"),
        (("fake",), "--out DIR"),
        (("fake", "--out", tmp_path / "o", "--scale", "tiny"), "smoke, small, paper"),
        (("fake", "--out", tmp_path / "o", "--only-methods", "tv"), "no method 'tv'"),
        (("fake", "--out", tmp_path / "o", "--method", "tv"), "no method 'tv'"),
        (("fake", "--out", tmp_path / "o", "--time-limit", 3), "does not take --time-limit"),
        (("fake", "--out", tmp_path / "o", "--time-limit", -1), "must be a number of seconds"),
        (("fake", "--out", tmp_path / "o", "--data-dir", "d"), "does not take --data-dir"),
        (("fake", "--out", tmp_path / "o", "--orders", "one"), "does not take --orders"),
    ):
        code, text, err = run("reproduce", *arguments)
        assert (code, text) == (2, "")
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()


_PROGRAM = """
import signal
import slow_experiment
from deltaai.cli.entry import main
from deltaai.experiments.harness import registry

if __name__ == "__main__":
    # Tests that run in the background ignore Ctrl-C, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    registry.MODULES = {"slow": "slow_experiment"}
    main()
"""

_SLOW = """
import os, time
from dataclasses import replace
from pathlib import Path
import fake_experiment

def run_part(part):
    Path(os.environ["PIDS"], str(os.getpid())).write_text(part.name)
    if part.seed == 1:
        time.sleep(600)
    yield from fake_experiment.run_part(part)

EXPERIMENT = replace(fake_experiment.EXPERIMENT, run_part=run_part)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_kill_leave_finished_parts_and_no_processes(tmp_path, stop):
    (tmp_path / "slow_experiment.py").write_text(_SLOW)
    (tmp_path / "program.py").write_text(_PROGRAM)
    pids = tmp_path / "pids"
    pids.mkdir()
    here = os.path.dirname(os.path.dirname(__file__))
    paths = os.pathsep.join((str(tmp_path), here, os.environ.get("PYTHONPATH", "")))
    out = tmp_path / "out"
    options = "--scale smoke --seeds 2 --jobs 2 --only-methods delta --only-models ladder --out"
    process = subprocess.Popen(
        [sys.executable, tmp_path / "program.py", "reproduce", "slow", *options.split(), out],
        env={**os.environ, "PYTHONPATH": paths, "PIDS": str(pids)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done = out / "parts" / "ladder--delta--0.csv"
    deadline = time.monotonic() + 60
    while not (done.exists() and len(list(pids.iterdir())) == 2):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if stop == signal.SIGINT:
        os.killpg(process.pid, stop)  # as a terminal does: to the children too
    else:
        process.kill()
    _, err = process.communicate(timeout=30)
    deadline = time.monotonic() + 20
    while any(_is_alive(int(path.name)) for path in pids.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [path.name for path in (out / "parts").glob("*.csv")] == [done.name]
    if stop == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in err
        assert "continue with: deltaai reproduce fake" in err
        assert "--resume" in err


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
