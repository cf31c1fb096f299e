"""``deltaai query`` on many cases and on samplers, and what every command shares."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import deltaai as dai
from deltaai.cli.app import app
from deltaai.cli.completion import complete_evidence, complete_names
from deltaai.io import write

CASES = "rain,wet_grass\nyes,\n,yes\nno,yes\n"


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "sprinkler.bif"
    write(dai.zoo.sprinkler(), path)
    return path


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(CASES)
    return path


@pytest.fixture(scope="module")
def lattice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lattice")
    model = dai.zoo.ising_lattice(side=3, sigma=0.3, seed=0)
    write(model, folder / "lattice.uai")
    dai.fit(dai.read(folder / "lattice.uai"), evidence="any", steps=150).save(folder / "any.dai")
    return folder


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_cases_on_the_screen(run, network, cases):
    code, out, err = run("query", network, "--evidence-file", cases, "--of", "cloudy")
    assert (code, err) == (0, "")
    assert "0.5758" in out
    assert "3 cases in" in out
    assert "3 exact" in out


def test_cases_to_a_file_and_to_a_pipe(run, network, cases, tmp_path):
    code, out, err = run(
        "query", network, "--evidence-file", cases, "--of", "rain", "-o", tmp_path / "out.csv"
    )
    assert (code, out) == (0, "")
    assert "written to" in err
    written = (tmp_path / "out.csv").read_text()
    rows = rows_of(written)
    assert [row["status"] for row in rows] == ["exact"] * 3
    assert float(rows[1]["rain=yes"]) == pytest.approx(0.7079, abs=1e-4)
    assert rows[0]["ess"] == ""
    code, out, err = run("query", network, "--evidence-file", cases, "--of", "rain", "--csv", "-q")
    assert (code, out, err) == (0, written, "")


def test_cases_from_a_pipe(run, network, cases, monkeypatch):
    _, expected, _ = run("query", network, "--evidence-file", cases, "--csv", "-q")
    monkeypatch.setattr(sys, "stdin", io.StringIO(CASES))
    code, out, _ = run("query", network, "--evidence-file", "-", "--csv", "-q")
    assert (code, out) == (0, expected)


def test_cases_as_json(run, network, cases, tmp_path):
    _, out, _ = run("query", network, "--evidence-file", cases, "--json")
    document = json.loads(out)
    assert document["rows"][0]["probabilities"]["rain=yes"] == 1
    assert document["rows"][0]["khat"] is None
    run("query", network, "--evidence-file", cases, "-o", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["rows"] == document["rows"]


def test_samples_of_cases(run, network, cases, tmp_path):
    arguments = ("query", network, "--evidence-file", cases, "--csv", "--samples", 4)
    assert "go together" in run(*arguments)[2]
    code, _, _ = run(*arguments, "--samples-output", tmp_path / "samples.csv")
    assert code == 0
    rows = rows_of((tmp_path / "samples.csv").read_text())
    assert len(rows) == 12
    assert {row["rain"] for row in rows if row["row"] == "0"} == {"yes"}


def test_an_impossible_case_is_said_and_the_others_answered(run, network, tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("sprinkler,rain,wet_grass\nno,no,yes\nyes,,\n")
    code, out, _ = run("query", network, "--evidence-file", path)
    assert code == 0
    assert "1 impossible, 1 exact" in out
    assert "probability zero" in out
    _, out, _ = run("query", network, "--evidence-file", path, "--json")
    assert json.loads(out)["rows"][0]["probabilities"]["rain=yes"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--map"], "without --evidence and --map"),
        (["-e", "rain=yes"], "without --evidence and --map"),
        (["-o", "out.txt"], ".csv or .json"),
        (["-o", "nowhere/out.csv"], "there is no folder"),
        (["--method", "bp"], "method is 'bp'"),
        (["--samples", "-1", "--samples-output", "s.csv"], "go together"),
    ],
)
def test_bad_questions_about_cases(run, network, cases, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("query", network, "--evidence-file", cases, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_bad_cell_names_file_row_and_remedy(run, network, tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("rain\nyes\nperhaps\n")
    code, _, err = run("query", network, "--evidence-file", path)
    assert code == 2
    assert re.search(
        r"cases.csv: row 2 \(line 3 of the file\): variable 'rain' has no state 'perhaps'", err
    )


def test_a_sampler_is_asked_like_a_model(run, lattice):
    code, out, err = run("query", lattice / "any.dai", "-e", "x0=1", "--of", "x1", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["status"] == "estimated"
    assert found["ess"] > 1000
    low, high = found["interval"]
    exact = json.loads(run("query", lattice / "lattice.uai", "-e", "x0=1", "--json")[1])
    assert low - 0.02 < exact["log_partition"] < high + 0.02
    cases = lattice / "cases.csv"
    cases.write_text("x0,x3\n1,\n,0\n")
    code, out, _ = run("query", lattice / "any.dai", "--evidence-file", cases, "--csv")
    assert code == 0
    assert [row["status"] for row in rows_of(out)] == ["estimated"] * 2
    assert "give the model" in run("query", lattice / "any.dai", "--map")[2]
    assert "give its model" in run("query", lattice / "any.dai", "--method", "exact")[2]


def test_a_first_estimate(run, lattice):
    code, out, _ = run("query", lattice / "lattice.uai", "--method", "bp", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["method"] == "loopy belief propagation"
    assert document["status"] == "unchecked"
    assert document["stderr"] is None


def test_samples_given_evidence_and_from_a_model(run, lattice):
    for source in ("any.dai", "lattice.uai"):
        code, out, _ = run("sample", lattice / source, "-n", 20, "-e", "x4=1", "--csv")
        assert code == 0
        assert {row["x4"] for row in rows_of(out)} == {"1"}
    _, out, _ = run("sample", lattice / "any.dai", "-n", 3, "--json")
    assert len(json.loads(out)) == 3
    code, _, err = run("sample", lattice / "lattice.uai", "--memory-limit", "10")
    assert code == 3
    assert err.count("\n") == 1


def test_fit_for_evidence_with_settings(run, lattice, tmp_path):
    arguments = ("fit", lattice / "lattice.uai", "-o", tmp_path / "s.dai", "--steps", 20)
    code, out, _ = run(*arguments, "--evidence", "any", "--set", "batch_size=32", "--csv")
    assert code == 0
    assert {"log_partition", "ess", "khat", "status"} <= {row["name"] for row in rows_of(out)}
    assert dai.load(tmp_path / "s.dai").config.batch_size == 32
    code, out, _ = run(*arguments, "--evidence", "x0,x1", "--json")
    assert code == 0
    assert json.loads(out)["largest_residuals"] == {}
    assert dai.load(tmp_path / "s.dai").evidence == (0, 1)
    assert "did you mean 'batch_size'" in run(*arguments, "--set", "batch_sise=3")[2]
    assert "name=value" in run(*arguments, "--set", "batch_size")[2]
    assert "batch_size" in run(*arguments, "--set", "batch_size=-1")[2]
    assert "no variable 'y'" in run(*arguments, "--evidence", "y")[2]


def test_fit_with_zeros_says_what_to_do(run, network, tmp_path):
    code, _, err = run("fit", network, "-o", tmp_path / "s.dai", "--steps", 5)
    assert code == 2
    assert "--smoothing" in err or "smoothing" in err
    code, _, _ = run("fit", network, "-o", tmp_path / "s.dai", "--steps", 5, "--smoothing", 1e-3)
    assert code == 0


def test_verbose_says_what_is_done_and_quiet_nothing(run, network):
    _, _, err = run("query", network, "-v", "--of", "rain")
    assert "read " in err
    assert "plan: exact, because" in err
    assert run("query", network, "-q", "--of", "rain")[2] == ""
    assert run("query", network, "--of", "rain")[2] == ""  # not verbose for ever


def test_a_fault_of_ours_is_one_line(run, network, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("by zero\nin two lines")

    monkeypatch.setattr("deltaai.cli.planning.plan_within", fail)
    code, out, err = run("plan", network)
    assert (code, out) == (1, "")
    assert err.startswith("error: this should not have happened (ZeroDivisionError: by zero)")
    assert err.count("\n") == 1
    assert "Traceback" in run("plan", network, "-v")[2]


def context_of(file):
    """What completion is given."""
    command = typer.main.get_command(app).commands["query"]
    context = typer.Context(command)
    context.params = {"file": file}
    return context


def test_names_and_states_are_completed(network, tmp_path):
    context = context_of(network)
    assert complete_names(context, "r") == ["rain"]
    assert complete_names(context, "rain,c") == ["rain,cloudy"]
    assert complete_evidence(context, "w") == ["wet_grass="]
    assert complete_evidence(context, "rain=") == ["rain=no", "rain=yes"]
    assert complete_evidence(context, "rain=yes,cloudy=y") == ["rain=yes,cloudy=yes"]
    assert complete_names(context_of(tmp_path / "none.bif"), "r") == []
    assert complete_names(context_of(None), "r") == []


def test_a_shell_asks_for_completion(network):
    line = f"deltaai query {network} --of r"
    asked = {"_DELTAAI_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "4"}
    done = subprocess.run(
        [Path(sys.executable).with_name("deltaai")],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["rain"]
