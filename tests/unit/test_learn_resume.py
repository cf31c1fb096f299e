"""Learning that is stopped anywhere and taken up again ends with the same tables, bit for bit."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

import deltaai as dai
from deltaai.errors import FormatError
from deltaai.io import load_tensors, save_tensors
from deltaai.learning.tables import learner, learner_files

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")

SPRINKLER = dai.zoo.sprinkler()


class Stop(Exception):
    """Raised in the middle of a run."""


def rows_of(model=SPRINKLER, number=120, share=0.3, seed=0):
    frame = dai.exact(model).sample(number, seed, as_frame=True)
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


ROWS = rows_of()
FIRST = dai.learn(ROWS[:60], SPRINKLER, steps=2)
HIDDEN = {"latent": {"kind": 2}, "restarts": 2}
EDGES = [("kind", name) for name in ROWS.columns]


@pytest.fixture
def _every_step(monkeypatch):
    """Write a checkpoint after each step."""
    monkeypatch.setattr(learner, "_SECONDS_APART", 0.0)
    monkeypatch.setattr(learner, "_WRITING_APART", 0.0)


def stop_at(number):
    calls = iter(range(1, 10_000))

    def progress(done):
        if next(calls) == number:
            raise Stop

    return progress


def assert_same(one, other):
    for mine, theirs in zip(one.groups, other.groups, strict=True):
        assert torch.equal(mine.log_tables(), theirs.log_tables())
    mine, theirs = one.report.to_dict(), other.report.to_dict()
    assert {**mine, "seconds": 0} == {**theirs, "seconds": 0}


CASES = {
    "held out": ((ROWS, SPRINKLER), {"steps": 2}),
    "complete": ((ROWS.fillna("yes"), SPRINKLER), {}),
    "random starts": ((ROWS, EDGES), {**HIDDEN, "steps": 2}),
    "random starts, complete": ((ROWS.fillna("no"), SPRINKLER), {"restarts": 2}),
    "learning on": ((ROWS,), {"start": FIRST, "start_rows": 50, "steps": 2, "held_out": 0}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("_every_step")
def test_stopped_after_every_step(tmp_path, case):
    given, settings = CASES[case]
    whole = dai.learn(*given, **settings)
    path, num_stops = tmp_path / "run.checkpoint", 0
    while True:
        try:
            found = dai.learn(*given, **settings, checkpoint=path, resume=True, progress=stop_at(1))
        except Stop:
            num_stops += 1
            continue
        break
    assert num_stops >= 2 - ("held_out" in settings)
    assert_same(found, whole)
    assert_same(dai.learn(*given, **settings, checkpoint=path, resume=True), whole)


@pytest.mark.slow
@pytest.mark.usefixtures("_every_step")
def test_stopped_once_at_any_step(tmp_path):
    given, settings = CASES["random starts"]
    steps = []
    whole = dai.learn(*given, **settings, progress=steps.append)
    assert len(steps) >= 6  # two climbs of two steps, and two with all rows
    for number in range(1, len(steps) + 1):
        path = tmp_path / f"{number}.checkpoint"
        with pytest.raises(Stop):
            dai.learn(*given, **settings, checkpoint=path, progress=stop_at(number))
        assert_same(dai.learn(*given, **settings, checkpoint=path, resume=True), whole)


def test_a_grid_goes_on_where_it_was(tmp_path):
    rows = rows_of(dai.zoo.ising_lattice(side=2, sigma=0.7, seed=0), 60, share=0.1)
    whole = dai.learn(rows, "grid 2x2")
    assert whole.report.steps > 6
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        dai.learn(rows, "grid 2x2", checkpoint=path, progress=stop_at(6))
    with pytest.raises(dai.TrainingError, match=r"other settings \(prior\)"):
        dai.learn(rows, "grid 2x2", prior=3, checkpoint=path, resume=True)
    assert_same(dai.learn(rows, "grid 2x2", checkpoint=path, resume=True), whole)


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """What a run leaves that was stopped at its third step."""
    path = tmp_path_factory.mktemp("run") / "run.checkpoint"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(learner, "_SECONDS_APART", 0.0)
        patched.setattr(learner, "_WRITING_APART", 0.0)
        with pytest.raises(Stop):
            dai.learn(ROWS, SPRINKLER, steps=4, checkpoint=path, progress=stop_at(3))
    return path.read_bytes()


@pytest.fixture
def stopped(tmp_path, stopped_run):
    path = tmp_path / "run.checkpoint"
    path.write_bytes(stopped_run)
    return path


@pytest.mark.parametrize(
    ("given", "settings", "words"),
    [
        ((ROWS, SPRINKLER), {}, r"holds an earlier run.*resume=True.*restart=True"),
        ((ROWS, SPRINKLER), {"resume": True, "restart": True}, "choose one of resume and restart"),
        ((ROWS[1:], SPRINKLER), {"resume": True}, "other data, another structure or another start"),
        ((ROWS,), {"resume": True}, "belongs to other data"),
        ((ROWS,), {"resume": True, "start": FIRST}, "belongs to other data"),
        ((ROWS, SPRINKLER), {"resume": True, "prior": 2}, r"other settings \(prior\)"),
        ((ROWS, SPRINKLER), {"resume": True, "steps": 9, "seed": 1}, r"\(steps, seed\)"),
        ((ROWS, "grid 2x2"), {"resume": True}, "holds a 'learning of tables'"),
        ((ROWS, SPRINKLER), {"resume": True, "checkpoint": None}, "none is named"),
        ((ROWS, SPRINKLER), {"resume": "yes"}, "resume is 'yes'"),
    ],
)
def test_another_run_is_refused_and_kept(stopped, given, settings, words):
    before = stopped.read_bytes()
    with pytest.raises(dai.DeltaAIError, match=words):
        dai.learn(*given, **{"checkpoint": stopped, "steps": 4, **settings})
    assert stopped.read_bytes() == before


def test_a_run_is_given_up_on_request(stopped):
    stopped.write_bytes(b"of a run that nobody wants")
    with pytest.raises(FormatError, match="not a safetensors file"):
        dai.learn(ROWS, SPRINKLER, checkpoint=stopped, resume=True)
    dai.learn(ROWS, SPRINKLER, steps=2, checkpoint=stopped, restart=True)
    dai.learn(ROWS, SPRINKLER, steps=2, checkpoint=stopped, resume=True)


FORGED = [("stage", 7), ("stage", 1), ("climb", "two"), ("held_out", "much")]
FORGED += [("here", {"dict": []}), ("best", 3), ("generator", None)]


@pytest.mark.parametrize(("name", "value"), FORGED)
def test_forged_runs_are_refused(stopped, name, value):
    tensors, metadata = load_tensors(stopped, learner_files.KIND)
    for pair in metadata["state"]["dict"]:
        pair[1] = value if pair[0] == name else pair[1]
    save_tensors(stopped, tensors, metadata, kind=learner_files.KIND)
    with pytest.raises(FormatError, match=r"incomplete or of another version.*start anew"):
        dai.learn(ROWS, SPRINKLER, steps=4, checkpoint=stopped, resume=True)


def test_tables_of_another_shape_are_refused(stopped):
    tensors, metadata = load_tensors(stopped, learner_files.KIND)
    for change in (lambda table: table[..., :1], lambda table: -table, torch.Tensor.float):
        spoilt = {
            name: change(value) if "tables" in name else value for name, value in tensors.items()
        }
        save_tensors(stopped, spoilt, metadata, kind=learner_files.KIND)
        with pytest.raises(FormatError, match="that are not of this network"):
            dai.learn(ROWS, SPRINKLER, steps=4, checkpoint=stopped, resume=True)


@pytest.mark.usefixtures("_every_step")
def test_when_the_time_is_over_the_run_can_go_on(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    settings = {"steps": 20, "tolerance": 0, "held_out": 0, "checkpoint": path}
    whole = dai.learn(ROWS, SPRINKLER, **{**settings, "checkpoint": None})
    calls = []
    as_it_is = learner.Budget.is_over.fget
    monkeypatch.setattr(
        learner.Budget, "is_over", property(lambda self: calls.append(0) or len(calls) > 7)
    )
    early = dai.learn(ROWS, SPRINKLER, **settings)
    assert not early.report.has_converged
    assert early.report.steps < 20
    monkeypatch.setattr(learner.Budget, "is_over", property(as_it_is))
    late = dai.learn(ROWS, SPRINKLER, **settings, resume=True)
    for mine, theirs in zip(late.groups, whole.groups, strict=True):
        assert torch.equal(mine.log_tables(), theirs.log_tables())


def test_time_that_ends_before_all_rows_are_learned_from_is_said(monkeypatch):
    steps = learner.steps_of
    begun = []

    def late(counter, *rest):
        begun.append(counter)
        if len(begun) == 2:
            raise dai.TimeLimitError("a step of learning", 1.0)
        return steps(counter, *rest)

    monkeypatch.setattr(learner, "steps_of", late)
    report = dai.learn(ROWS, SPRINKLER, steps=2).report
    assert "before the rows held out were learned from" in " ".join(report.notes)
    assert report.held_out_log_likelihood is not None


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame(ROWS).to_csv(path, index=False)
    return path


def interrupt_after(monkeypatch, number):
    steps = learner.steps_of

    def interrupted(*arguments):
        for found in steps(*arguments):
            yield found
            if found.step == number:
                raise KeyboardInterrupt

    monkeypatch.setattr(learner, "steps_of", interrupted)


@pytest.mark.usefixtures("_every_step")
def test_ctrl_c_and_resume_on_the_command_line(run, monkeypatch, data, tmp_path):
    words = ["learn", data, "--structure", "sprinkler", "--steps", 4]
    assert run(*words, "-o", tmp_path / "whole.bif")[0] == 0
    out, kept = tmp_path / "m.bif", tmp_path / "m.bif.checkpoint"
    words += ["-o", out]
    assert "nothing to resume" in run(*words, "--resume")[2]
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        code, said, err = run(*words)
    assert (code, said, out.exists(), kept.exists()) == (130, "", False, True)
    assert "continue with the same command and --resume" in " ".join(err.split())
    code, _, err = run(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "--resume" in err
    assert "--restart" in err
    code, _, err = run(*words, "--prior", 2, "--resume")
    assert (code, "other settings (--prior)" in err) == (2, True)
    assert run(*words, "--resume")[0] == 0
    assert out.read_bytes() == (tmp_path / "whole.bif").read_bytes()
    assert not kept.exists()


@pytest.mark.usefixtures("_every_step")
def test_the_state_may_be_kept_elsewhere(run, monkeypatch, data, tmp_path):
    kept = tmp_path / "run.checkpoint"
    words = ["learn", data, "-o", tmp_path / "m.dai", "--checkpoint", kept]
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        assert run(*words)[0] == 130
    assert kept.exists()
    assert run(*words, "--resume")[0] == 0
    assert not kept.exists()
    code, _, err = run("learn", data, "-o", tmp_path / "m.dai", "--checkpoint", tmp_path / "m.dai")
    assert (code, "runs are written to .checkpoint" in err) == (2, True)


def kill_when_it_has_saved(process, path):
    """Kill a process when it has written a checkpoint; say whether it had not ended before."""
    before = path.stat().st_mtime_ns if path.exists() else None
    while process.poll() is None:
        if path.exists() and path.stat().st_mtime_ns != before:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["latent.bif", "grid 3x3"])
def test_killed_for_real(tmp_path, structure):
    """A process that is killed again and again writes, in the end, the same file."""
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(9)]
    frame = pd.DataFrame(rng.integers(0, 3, (2000, 9)), columns=names).astype(object)
    frame.mask(rng.random(frame.shape) < 0.2).to_csv(tmp_path / "d.csv", index=False)
    words = ["learn", "d.csv", "--structure", structure, "-q"]
    if structure == "latent.bif":
        variables = [dai.Variable("kind", 4), *(dai.Variable(name, 3) for name in names)]
        even = [dai.ConditionalTable(name, ["kind"], np.full((4, 3), 1 / 3)) for name in names]
        first = dai.ConditionalTable("kind", [], np.full(4, 0.25))
        dai.write(dai.FactorGraph(variables, [first, *even]), tmp_path / structure)
        words += ["--latent", "kind=4", "--restarts", "3"]

    def command(*more):
        arguments = [sys.executable, "-m", "deltaai.cli", *words, *more]
        return subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.DEVNULL)

    assert command("-o", "whole.dai").wait() == 0
    kept = tmp_path / "m.dai.checkpoint"
    assert kill_when_it_has_saved(command("-o", "m.dai"), kept)
    assert not (tmp_path / "m.dai").exists()
    for _ in range(2):
        if kept.exists():
            kill_when_it_has_saved(command("-o", "m.dai", "--resume"), kept)
    if kept.exists():
        assert command("-o", "m.dai", "--resume").wait() == 0
    assert (tmp_path / "m.dai").read_bytes() == (tmp_path / "whole.dai").read_bytes()
