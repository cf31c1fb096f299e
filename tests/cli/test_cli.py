"""The command line as a user meets it: answers, formats, exit codes, one-line errors."""

import csv
import io
import json
import subprocess
import sys

import pytest

from broken_files import BROKEN_FILES
from deltaai.arguments import checked_bytes, parse_bytes
from deltaai.cli import demo
from deltaai.cli.parsing import parse_evidence, parse_names
from deltaai.errors import DeltaAIError
from deltaai.exact import exact
from deltaai.io import write
from deltaai.models import FactorGraph, TableFactor, Variable, zoo


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "sprinkler.bif"
    write(zoo.sprinkler(), path)
    return path


@pytest.fixture
def lattice(tmp_path):
    path = tmp_path / "lattice.uai"
    write(zoo.ising_lattice(side=40, sigma=0.2, seed=0), path)
    return path


def test_query_shows_a_table(run, network):
    code, out, err = run("query", network, "--evidence", "wet_grass=yes", "--of", "rain")
    assert code == 0
    assert "0.707928" in out
    assert "exact" in out
    assert "cloudy" not in out
    assert err == ""


def test_query_as_json(run, network):
    code, out, _ = run("query", network, "-e", "wet_grass=yes", "--json", "--map")
    document = json.loads(out)
    assert code == 0
    assert document["status"] == "exact"
    assert document["marginals"]["rain"]["yes"] == pytest.approx(0.7079, abs=1e-4)
    assert document["log_partition"] == pytest.approx(-0.435254, abs=1e-6)
    assert document["map"]["states"]["wet_grass"] == "yes"


def test_query_as_csv(run, network):
    _, out, _ = run("query", network, "-e", "wet_grass=yes,cloudy=no", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert {row["status"] for row in rows} == {"exact"}
    assert sum(float(row["probability"]) for row in rows) == pytest.approx(4.0)


def test_evidence_from_a_file(run, tmp_path):
    write(zoo.random_bayesian_network(4, max_parents=2, max_states=2, seed=0), tmp_path / "m.uai")
    (tmp_path / "m.evid").write_text("1 2 1\n")
    code, out, _ = run(
        "query", tmp_path / "m.uai", "--evidence-file", tmp_path / "m.evid", "--json"
    )
    assert code == 0
    assert json.loads(out)["marginals"]["x2"] == {"0": 0.0, "1": 1.0}


@pytest.mark.parametrize("command", ["plan", "check"])
@pytest.mark.parametrize("style", [(), ("--json",), ("--csv",)])
def test_plan_and_check_in_every_style(run, network, command, style):
    code, out, err = run(command, network, *style)
    assert code == 0
    assert err == ""
    if style == ("--json",):
        document = json.loads(out)
        planned = document["plan"] if command == "check" else document
        assert planned["method"] == "exact"
        assert planned["width"] == 2
    elif style == ("--csv",):
        names = [row["name"] for row in csv.DictReader(io.StringIO(out))]
        assert ("plan.width" if command == "check" else "width") in names
    else:
        assert "width" in out


def test_plan_refuses_nothing_but_query_does(run, lattice):
    code, out, _ = run("plan", lattice, "--memory-limit", "1MB")
    assert code == 0
    assert "cannot" in out
    assert "training a sampler needs about" in " ".join(out.split())
    for method, begin in (("auto", "an exact answer"), ("exact", "exact inference")):
        arguments = ("query", lattice, "--memory-limit", "1MB", "--method", method)
        code, out, err = run(*arguments)
        assert code == 3
        assert out == ""
        assert err.startswith(f"error: {begin} needs about")
        assert "1.0 MiB" in err
        assert err.count("\n") == 1


def test_check_reports_what_is_suspicious(run, tmp_path):
    (tmp_path / "odd.uai").write_text(
        "MARKOV\n4\n2 1 2 2\n2\n1 0\n2 0 2\n\n2\n 0.5 0.5\n\n4\n 1 0 0.5 0.5\n"
    )
    code, out, _ = run("check", tmp_path / "odd.uai")
    assert code == 0
    assert "'x1', 'x3': in no factor" in out
    assert "'x1': only one state" in out
    assert "1 factor has the same value everywhere" in out
    assert "1 zero" in out
    (tmp_path / "sums.uai").write_text("BAYES\n1\n2\n1\n1 0\n\n2\n 0.5 0.4\n")
    _, out, _ = run("check", tmp_path / "sums.uai")
    assert "'x0': rows of the conditional table do not sum to one" in out
    assert "off by 0.1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--evidence", "wet_gras=yes"], "no variable 'wet_gras' in the model; did you mean"),
        (["--evidence", "rain=maybe"], "variable 'rain' has no state 'maybe'"),
        (["--evidence", "rain=7"], "give a label or an index from 0 to 1"),
        (["--evidence", "rain"], "not of the form name=state"),
        (["--evidence", "=yes"], "not of the form name=state"),
        (["--evidence", "rain=yes", "-e", "rain=no"], "gives 'rain' two values"),
        (["--of", "rian"], "did you mean 'rain'?"),
        (["--of", ","], "names no variable"),
        (["--memory-limit", "lots"], "'lots' is not an amount of memory"),
        (["--memory-limit", "-1"], "'-1' is not an amount of memory"),
        (["--json", "--csv"], "choose one of --json and --csv"),
        (["--csv", "--map"], "use --json with --map"),
        (["--evidence-file", "nowhere.evid"], "nowhere.evid"),
        (
            ["-e", "sprinkler=no,rain=no,wet_grass=yes"],
            "the evidence has probability zero: sprinkler=no, rain=no, wet_grass=yes is impossible",
        ),
    ],
)
def test_bad_questions_get_one_line_and_code_2(run, network, arguments, message):
    code, out, err = run("query", network, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_unusual_models(run, tmp_path):
    for name, text in {
        "one.uai": "MARKOV\n1\n3\n1\n1 0\n3\n 1 2 1\n",
        "none.uai": "MARKOV\n2\n2 2\n0\n",
        "apart.uai": "MARKOV\n4\n2 2 2 2\n2\n2 0 1\n2 2 3\n4\n 1 2 3 4\n4\n 4 3 2 1\n",
        "empty.uai": "MARKOV\n0\n\n0\n",
    }.items():
        (tmp_path / name).write_text(text)
        for command in ("plan", "check", "query"):
            code, _, err = run(command, tmp_path / name)
            assert (code, err) == (0, ""), (name, command)


def test_demo_help_and_version(run, monkeypatch):
    monkeypatch.setattr(demo, "_WIDE", "grid")
    monkeypatch.setattr(demo, "_STEPS", 2)
    monkeypatch.setattr(demo, "_SMALL_STEPS", 5)
    code, out, _ = run("demo")
    assert code == 0
    # A plan, a sampler, an answer with its error, an exact one beside it, an unlikely question.
    for expected in (
        "Plan for 100 variables",
        "Sampler for 100 variables",
        "P(x40, x41)",
        "effective samples",
        ": exact",
        "odd = dict(x_3_2=0",
    ):
        assert expected in out
    assert run("--help")[0] == 0
    for command in ("plan", "check", "query", "demo"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert command in out
    assert run("--version")[1].startswith("deltaai ")


def test_long_lists_are_cut_with_a_word(run, tmp_path):
    write(zoo.ising_ladder(num_variables=100, sigma=0.2, seed=0), tmp_path / "long.uai")
    _, out, _ = run("query", tmp_path / "long.uai")
    assert "more variables" in out


def test_in_a_pipe_there_is_no_colour_and_no_progress(network):
    command = [sys.executable, "-m", "deltaai.cli", "query", str(network), "-e", "rain=yes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_closed_pipe_is_quiet(network):
    shell = f"{sys.executable} -m deltaai.cli query {network} --csv | head -n 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "variable,state,probability,stderr,status\n"
    assert done.stderr == ""


def test_names_with_commas_and_equal_signs():
    model = FactorGraph(
        [Variable("a=b", ["x,y", "z"]), Variable("c,d", ["1=1", "0"])],
        [TableFactor(["a=b", "c,d"], [[0.0, 1.0], [1.0, 0.0]])],
    )
    assert parse_evidence(["a=b=x,y"], None, model) == {"a=b": "x,y"}
    assert parse_evidence(["c,d=1=1"], None, model) == {"c,d": "1=1"}
    assert parse_names("c,d", model) == ["c,d"]


def test_amounts_of_memory():
    assert checked_bytes(None) is None
    assert parse_bytes("2g") == parse_bytes("2 GiB") == 2 * 2**30
    for text in ("", "GB", "1 2", "0", "1e9GB", "4PB"):
        with pytest.raises(DeltaAIError, match="amount of memory"):
            parse_bytes(text)


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_files_get_one_line_and_code_2(run, tmp_path, name):
    suffix, content, expected = BROKEN_FILES[name]
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    if suffix == ".evid":
        write(
            FactorGraph([Variable("x0", 2)], [TableFactor(["x0"], [0.0, 1.0])]), tmp_path / "m.uai"
        )
        code, out, err = run("query", tmp_path / "m.uai", "--evidence-file", path)
    else:
        code, out, err = run("check", path)
    assert code == 2
    assert out == ""
    assert err.startswith(f"error: {path}")
    assert expected in err
    assert err.count("\n") == 1


def test_plan_query_and_map_agree_where_variables_have_to_be_fixed(run, tmp_path):
    torus = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    file = tmp_path / "torus.uai"
    write(torus, file)
    limit = ("--memory-limit", "40000")
    assert json.loads(run("plan", file, *limit, "--json")[1])["method"] == "exact in parts"
    assert "exact in parts" in run("plan", file, *limit)[1]
    document = json.loads(run("query", file, *limit, "--json", "--map")[1])
    assert document["status"] == "exact"
    best = exact(torus).map()
    assert document["map"]["log_score"] == pytest.approx(best.log_score)
    assert [int(state) for state in document["map"]["states"].values()] == best.state.tolist()
