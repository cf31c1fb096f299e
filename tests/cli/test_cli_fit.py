"""``deltaai fit`` and ``deltaai sample`` as a user meets them."""

import csv
import io
import json

import numpy as np
import pytest

from deltaai.io import write
from deltaai.models import zoo


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "lattice.uai"
    write(zoo.ising_lattice(side=3, sigma=0.3, seed=0), path)
    return path


@pytest.fixture
def sampler_file(run, model_file, tmp_path):
    path = tmp_path / "lattice.dai"
    code, _, err = run("fit", model_file, "-o", path, "--steps", 40)
    assert (code, err) == (0, "")
    return path


def test_fit_prints_a_summary(run, model_file, tmp_path):
    output, log = tmp_path / "s.dai", tmp_path / "s.jsonl"
    code, out, err = run("fit", model_file, "-o", output, "--steps", 40, "--metrics", log)
    assert (code, err) == (0, "")
    for word in ("log Z", "ELBO", "effective samples", "k-hat", "largest residuals"):
        assert word in out
    assert output.exists()
    assert not (tmp_path / "s.dai.checkpoint").exists()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows[-1]["step"] == 40 or rows[-1]["ess"] > 0.99


def test_fit_as_json_and_many_orders(run, model_file, tmp_path):
    arguments = ("fit", model_file, "-o", tmp_path / "s.dai", "--steps", 16, "--orders", "many")
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    assert json.loads(out)["estimate"]["ess_fraction"] > 0.1


def test_samples_on_screen_as_csv_and_as_files(run, sampler_file, tmp_path):
    code, out, _ = run("sample", sampler_file, "-n", 5)
    assert code == 0
    assert "5 of 5 samples" in out
    _, out, _ = run("sample", sampler_file, "-n", 7, "--csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert len(rows) == 8
    assert set(rows[1]) <= {"0", "1"}
    code, _, _ = run("sample", sampler_file, "-n", 7, "-o", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == out
    run("sample", sampler_file, "-n", 7, "-o", tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as stored:
        assert stored["states"].shape == (7, 9)
        assert stored["log_q"].shape == (7,)
        assert stored["variables"][0] == "x0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--orders", "some"], "choose one or many"),
        (["--steps", "-3"], "steps"),
        (["--time-limit", "-1"], "--time-limit is -1"),
        (["--resume"], "nothing to resume"),
        (["--checkpoint", "run.txt"], "runs are written to .checkpoint files"),
    ],
)
def test_bad_settings_get_one_line(run, model_file, tmp_path, arguments, message):
    code, out, err = run("fit", model_file, "-o", tmp_path / "s.dai", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s.dai").exists()


def test_other_bad_input(run, model_file, tmp_path):
    assert "no folder" in run("fit", model_file, "-o", tmp_path / "nowhere" / "s.dai")[2]
    assert run("sample", tmp_path / "missing.dai")[0] == 2
    assert run("sample", model_file.with_name("model.txt"))[0] == 2
    (tmp_path / "zero.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2\n 1 0\n")
    code, _, err = run("fit", tmp_path / "zero.uai", "-o", tmp_path / "s.dai")
    assert code == 2
    assert "zero" in err


def test_bad_sample_requests(run, sampler_file, tmp_path):
    assert "at least 1" in run("sample", sampler_file, "-n", 0)[2]
    assert ".csv, .json or .npz" in run("sample", sampler_file, "-o", tmp_path / "x.txt")[2]
