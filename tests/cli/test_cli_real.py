"""The command line on models with real variables: every command, and what it refuses."""

import csv
import io
import json

import numpy as np
import pytest

import deltaai as dai
from deltaai.cli.completion import read_states


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    variables = [
        dai.Variable("s", ["a", "b"]),
        dai.Variable("x", support="line"),
        dai.Variable("knee", support="line", dimension=2),
        dai.Variable("share", support=(0, 1)),
    ]
    factors = [
        dai.LinearGaussian("x", given=["s"], bias=[0.0, 1.0], scale=[1.0, 2.0]),
        dai.GaussianFactor("knee", [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]]),
        dai.LinearGaussian("share", ["x", "knee[0]"], [0.1, 0.2], 0.2, 0.5),
    ]
    model = dai.FactorGraph(variables, factors)
    dai.write(model, folder / "mixed.dai")
    dai.write(dai.zoo.gaussian_lattice(side=3, coupling=1.0, seed=0), folder / "field.dai")
    return model, folder


EVIDENCE = ["-e", "s=b", "-e", "share=0.4"]


def test_query_on_the_screen(run, files):
    _, folder = files
    code, out, err = run("query", folder / "mixed.dai", *EVIDENCE, "--map")
    assert (code, err) == (0, "")
    for word in ("mean", "deviation", "97.5 %", "knee[1]", "exact", "most likely", "s=b"):
        assert word in out
    assert "\x1b" not in out


def test_query_as_json_and_csv(run, files):
    model, folder = files
    wanted = dai.query(model, {"s": "b", "share": 0.4})
    code, out, _ = run("query", folder / "mixed.dai", *EVIDENCE, "--json", "--map")
    found = json.loads(out)
    assert (code, found["status"]) == (0, "exact")
    assert found["marginals"]["s"] == {"a": 0.0, "b": 1.0}
    knee = found["marginals"]["knee[1]"]
    assert knee["mean"] == wanted.marginals["knee[1]"].mean
    assert knee["quantiles"]["0.975"] == wanted.marginals["knee[1]"].quantile(0.975)
    assert found["map"]["states"]["x"] == pytest.approx(wanted.marginals["x"].mean)
    code, out, _ = run("query", folder / "mixed.dai", *EVIDENCE, "--csv", "--of", "knee,s")
    rows = list(csv.reader(io.StringIO(out)))
    assert rows[0] == ["variable", "state", "value", "stderr", "status"]
    assert rows[1][:2] == ["knee[0]", "mean"]
    assert {row[0] for row in rows[1:]} == {"knee[0]", "knee[1]", "s"}


def test_samples(run, files, tmp_path):
    _, folder = files
    code, out, _ = run("sample", folder / "mixed.dai", *EVIDENCE, "-n", 3, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, len(rows)) == (0, 3)
    assert all(row["s"] == "b" and row["share"] == "0.4" for row in rows)
    code, out, _ = run("sample", folder / "mixed.dai", *EVIDENCE, "-n", 3, "--json")
    assert [float(row["x"]) for row in rows] == [row["x"] for row in json.loads(out)]
    code, _, _ = run("sample", folder / "field.dai", "-n", 5, "-o", tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["states"].shape == (5, 9)
        assert arrays["states"].dtype == np.float64


def test_plan_and_check(run, files):
    _, folder = files
    code, out, _ = run("plan", folder / "mixed.dai", *EVIDENCE)
    assert code == 0
    assert "Gaussian" in out
    assert "largest block" in out
    code, out, _ = run("check", folder / "mixed.dai")
    assert code == 0
    assert "4 of them real" in out


def test_tables_of_cases(run, files, tmp_path):
    _, folder = files
    cases = tmp_path / "cases.csv"
    cases.write_text("x_0_0,x_1_1\n0.3,\n,nan\n1,2e0\n")
    code, out, _ = run("query", folder / "field.dai", "--evidence-file", cases, "--of", "x_2_2")
    assert code == 0
    assert "3 exact" in out
    assert "x_2_2 mean" in out
    cases.write_text("x_0_0\n0.3\nhigh\n")
    code, _, err = run("query", folder / "field.dai", "--evidence-file", cases)
    assert code != 0
    assert "line 3" in err
    assert "any number, not 'high'" in err


def test_completion_knows_names(files):
    _, folder = files
    assert read_states(folder / "mixed.dai") == {
        "s": ["a", "b"],
        "x": [],
        "knee[0]": [],
        "knee[1]": [],
        "share": [],
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["query", "mixed.dai", "-e", "share=1.5"], "a number from 0 to 1, not '1.5'"),
        (["query", "mixed.dai", "-e", "share=nan"], "a number from 0 to 1, not 'nan'"),
        (["query", "mixed.dai", "-e", "x=tall"], "any number, not 'tall'"),
        (["query", "mixed.dai", "-e", "knee=1"], "2 coordinates"),
        (["query", "mixed.dai", "-e", "x=1", "-e", "x=2"], "gives 'x' two values"),
        (["query", "field.dai", "--method", "bp"], "is real"),
        (["query", "mixed.dai", *EVIDENCE, "--of", "elbow"], "no variable 'elbow'"),
        (["sample", "mixed.dai"], "not Gaussian, for 's' has states"),
        (["plan", "mixed.dai", "-e", "share=2"], "a number from 0 to 1"),
    ],
)
def test_what_cannot_be_is_one_line(run, files, words, says):
    _, folder = files
    code, out, err = run(words[0], folder / words[1], *words[2:])
    assert code != 0
    assert out == ""
    assert says in " ".join(err.split())
    assert "Traceback" not in err
