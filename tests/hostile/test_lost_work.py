"""Nothing that took time is lost: models, checkpoints, histories, outputs beside one that fails."""

import errno
import json
import os
import re
from contextlib import contextmanager

import pytest
import torch

import deltaai as dai
from deltaai.errors import FormatError, OutputError
from deltaai.io import atomic
from deltaai.io.source import Source
from deltaai.io.tensor_files import load_tensors, save_tensors
from deltaai.io.uai import format_uai, parse_uai
from deltaai.training.run_files import CHECKPOINT_KIND

SETTINGS = {"steps": 40, "checkpoint_every": 5, "evaluate_every": 5, "target_ess": None}
AS_OPTIONS = ["--steps", 40, "--set", "evaluate_every=5", "--set", "target_ess=none"]


def lattice():
    """As it comes from a file, where variables have numbers."""
    model = dai.zoo.ising_lattice(side=2, sigma=0.3, seed=0)
    return parse_uai(Source("m.uai", format_uai(model)))


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "m.uai"
    dai.write(lattice(), path)
    return path


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "s.bif"
    dai.write(dai.zoo.sprinkler(), path)
    return path


def interrupt_at(step):
    def watch(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return watch


@pytest.fixture
def interrupted(tmp_path):
    """The checkpoint of a run that was stopped at step 22, as ``fit -o m.dai`` leaves it."""
    path = tmp_path / "m.dai.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        dai.fit(lattice(), checkpoint=path, watch=interrupt_at(22), **SETTINGS)
    return path


def test_a_model_is_not_replaced_by_its_own_sampler(run, model_file, tmp_path):
    before = model_file.read_bytes()
    os.symlink(model_file, tmp_path / "soft.dai")
    os.link(model_file, tmp_path / "hard.dai")
    for output in (model_file, tmp_path / "soft.dai", tmp_path / "hard.dai"):
        code, out, err = run("fit", model_file, "-o", output, "--steps", 1)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert ".dai files" in err if output == model_file else "is a file that is read" in err
        assert model_file.read_bytes() == output.read_bytes() == before


def test_no_output_takes_the_place_of_what_is_read_or_of_another(run, network, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text("rain\nyes\n")
    (tmp_path / "inner").mkdir()
    again = tmp_path / "inner" / ".." / "cases.csv"
    code, _, err = run("query", network, "--evidence-file", cases, "-o", again)
    assert code == 2
    assert "is a file that is read" in err
    options = ["--samples", 2, "-o", tmp_path / "a.csv", "--samples-output"]
    code, _, err = run(
        "query", network, "--evidence-file", cases, *options, again.with_name("a.csv")
    )
    assert code == 2
    assert "--output and --samples-output are one file" in err
    assert cases.read_text() == "rain\nyes\n"


@pytest.mark.parametrize(
    ("command", "option", "suffix"),
    [
        ("fit", "-o", ".dai"),
        ("fit", "--metrics", ".jsonl"),
        ("query", "-o", ".csv"),
        ("query", "--samples-output", ".csv"),
        ("sample", "-o", ".npz"),
    ],
)
def test_outputs_are_looked_at_before_anything_is_read(run, tmp_path, command, option, suffix):
    (tmp_path / f"folder{suffix}").mkdir()
    (tmp_path / "file").write_text("")
    wrong = {
        f"folder{suffix}": "this is a folder",
        f"nowhere/x{suffix}": "there is no folder",
        f"file/x{suffix}": "there is no folder",
        "x.txt": f"are written to .*{suffix}",
        "x": f"are written to .*{suffix}",
        "n" * 250 + suffix: "too long",
    }
    rest = ["-o", tmp_path / "good.dai"] if option == "--metrics" else []
    for name, message in wrong.items():
        missing = tmp_path / "missing.uai"  # would be complained about if it were read first
        code, out, err = run(command, missing, *rest, option, tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "missing.uai" not in err
        assert re.search(message, err), (name, err)
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_folder_for_results_is_looked_at_first(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run("reproduce", "synthetic-gfn", "--out", tmp_path / "file", "--scale", "smoke")
    assert code == 2
    assert err.count("\n") == 1
    assert "cannot use" in err


def test_capitals_in_a_suffix_are_the_same_suffix(run, network, tmp_path):
    assert run("query", network, "-o", tmp_path / "A.JSON")[0] == 0
    assert json.loads((tmp_path / "A.JSON").read_text())["status"] == "exact"
    assert run("sample", network, "-n", 3, "-o", tmp_path / "S.CSV")[0] == 0
    assert len((tmp_path / "S.CSV").read_text().splitlines()) == 4


def test_an_interrupted_run_is_not_given_up_in_silence(run, model_file, interrupted, tmp_path):
    before, output = interrupted.read_bytes(), tmp_path / "m.dai"
    command = ["fit", model_file, "-o", output, *AS_OPTIONS]
    code, _, err = run(*command)
    assert (code, err.count("\n")) == (2, 1)
    assert "--resume" in err
    assert "--restart" in err
    assert interrupted.read_bytes() == before
    assert run(*command, "--resume", "--restart")[0] == 2
    assert interrupted.read_bytes() == before
    code, out, _ = run(*command, "--resume", "--json")
    assert code == 0
    assert [row["step"] for row in json.loads(out)["history"]] == list(range(5, 45, 5))
    assert not interrupted.exists()


def test_a_run_is_given_up_on_request(run, model_file, interrupted, tmp_path):
    interrupted.write_bytes(b"of a run that nobody wants")
    code, _, err = run("fit", model_file, "-o", tmp_path / "m.dai", *AS_OPTIONS, "--restart")
    assert (code, err) == (0, "")
    assert not interrupted.exists()


def test_python_does_not_give_up_a_run_in_silence(interrupted):
    before = interrupted.read_bytes()
    for path in (interrupted, str(interrupted)):
        with pytest.raises(dai.ConfigError) as caught:
            dai.fit(lattice(), checkpoint=path, **SETTINGS)
        assert "go on with it with resume=True, or give it up with restart=True" in str(
            caught.value
        )
        assert interrupted.read_bytes() == before
    with pytest.raises(dai.ConfigError, match="choose one of resume and restart"):
        dai.fit(lattice(), checkpoint=interrupted, resume=True, restart=True, **SETTINGS)
    with pytest.raises(dai.ConfigError, match="batch_size is 0"):  # a slip costs nothing either
        dai.fit(lattice(), checkpoint=interrupted, restart=True, batch_size=0, **SETTINGS)
    assert interrupted.read_bytes() == before
    again = dai.fit(lattice(), checkpoint=interrupted, restart=True, **SETTINGS)
    assert [row["step"] for row in again.history] == list(range(5, 45, 5))
    done = dai.fit(lattice(), checkpoint=interrupted, resume=True, **SETTINGS)
    assert done.history == again.history


def test_the_same_script_may_be_started_again_whenever_it_was_killed(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = dai.fit(lattice(), checkpoint=path, resume=True, **SETTINGS)
    assert dai.fit(lattice(), checkpoint=path, resume=True, **SETTINGS).history == first.history


def test_history_survives_an_interrupt(interrupted, tmp_path):
    whole = dai.fit(lattice(), **SETTINGS)
    log = tmp_path / "log.jsonl"
    resumed = dai.fit(lattice(), checkpoint=interrupted, resume=True, metrics=log, **SETTINGS)

    def without_clock(rows):
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]

    assert without_clock(resumed.history) == without_clock(whole.history)
    written = [json.loads(line) for line in log.read_text().splitlines()]
    assert written == resumed.history  # though the first part had no log


def _with_history(path, change):
    """Rewrite a checkpoint with another history in its packed state."""
    tensors, metadata = load_tensors(path, CHECKPOINT_KIND)
    pairs = metadata["state"]["dict"]
    metadata["state"]["dict"] = change([pair for pair in pairs if pair[0] != "history"])
    save_tensors(path, tensors, metadata, kind=CHECKPOINT_KIND)


def test_checkpoints_without_a_history_are_refused_and_kept(interrupted):
    _with_history(interrupted, lambda pairs: pairs)
    before = interrupted.read_bytes()
    with pytest.raises(FormatError, match="of another version"):
        dai.fit(lattice(), checkpoint=interrupted, resume=True, **SETTINGS)
    assert interrupted.read_bytes() == before


@pytest.mark.parametrize("history", [3, [4], [{"dict": [["step", "five"]]}]])
def test_a_history_that_is_none_is_refused(interrupted, history):
    _with_history(interrupted, lambda pairs: [*pairs, ["history", history]])
    with pytest.raises(FormatError, match="start anew"):
        dai.fit(lattice(), checkpoint=interrupted, resume=True, **SETTINGS)


class FullDisk:
    """A file on a disk that has no room."""

    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch):
    """Let files with some suffix be written no more, once the command is under way."""
    write, as_it_comes = atomic.replace_file, atomic.replacing

    def fill(module, suffix):
        def replace_file(path, content):
            if str(path).endswith(suffix):
                raise OutputError(f"cannot write {path}: No space left on device")
            write(path, content)

        @contextmanager
        def replacing(path):
            with as_it_comes(path) as stream:
                yield FullDisk() if str(path).endswith(suffix) else stream

        monkeypatch.setattr(f"{module}.replace_file", replace_file)
        monkeypatch.setattr(f"{module}.replacing", replacing, raising=False)

    return fill


def test_one_output_that_fails_does_not_take_the_others_with_it(run, network, tmp_path, full_disk):
    cases = tmp_path / "cases.csv"
    cases.write_text("rain\nyes\n")
    full_disk("deltaai.cli.show", "samples.csv")
    samples = ["--samples", 2, "--samples-output", tmp_path / "samples.csv"]
    answers = tmp_path / "answers.csv"
    code, _, err = run("query", network, "--evidence-file", cases, *samples, "-o", answers)
    assert code == 4
    assert "samples.csv: No space left" in err
    assert len(answers.read_text().splitlines()) == 2


def test_a_sampler_that_cannot_be_written_is_not_lost(
    run, model_file, tmp_path, full_disk, monkeypatch
):
    output = tmp_path / "m.dai"
    command = ["fit", model_file, "-o", output, *AS_OPTIONS]
    full_disk("deltaai.io.tensor_files", ".dai")
    code, out, err = run(*command)
    monkeypatch.undo()
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "--resume" in err
    assert not output.exists()
    code, _, err = run(*command, "--resume")
    assert (code, err) == (0, "")
    assert dai.load(output).history[-1]["step"] == 40


@pytest.mark.skipif(os.name != "posix", reason="names are texts there")
def test_files_may_have_names_that_are_not_utf_8(tmp_path, run):
    sampler = dai.fit(lattice(), steps=2)
    path = tmp_path / os.fsdecode(b"caf\xe9.dai")
    try:
        sampler.save(path)
    except OutputError:
        pytest.skip("this file system has no such names")
    assert dai.load(path).model.content_hash() == sampler.model.content_hash()
    assert dai.query(path, num_samples=500).ess
    model = tmp_path / os.fsdecode(b"caf\xe9.uai")
    dai.write(lattice(), model)
    assert dai.read(model).num_variables == 4
    code, out, err = run("sample", path, "-n", 2, "--csv")
    assert (code, err, len(out.splitlines())) == (0, "", 3)
    with pytest.raises(FormatError) as caught:
        dai.load(tmp_path / os.fsdecode(b"none\xe9.dai"))
    assert str(caught.value).isprintable()
    checkpoint = tmp_path / os.fsdecode(b"run\xe9.checkpoint")
    dai.fit(lattice(), checkpoint=checkpoint, **SETTINGS)
    assert dai.fit(lattice(), checkpoint=checkpoint, resume=True, **SETTINGS).history


def test_tables_are_shown_with_rows_from_one():
    answer = dai.query_table(dai.zoo.sprinkler(), [{"rain": "yes"}, {}])
    assert "case 1" in str(answer)
    assert "case 0" not in str(answer)
    assert "case 0" not in answer._repr_html_()
    assert list(answer.to_frame().index) == [0, 1]
    with pytest.raises(dai.StateError, match=r"row 2 \(x\[1\]\) gives variable"):
        lattice().log_score(torch.tensor([[0, 0, 0, 0], [0, 0, 0, 2]]))
