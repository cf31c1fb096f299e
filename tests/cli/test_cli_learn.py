"""``deltaai learn``, from a table to an answer."""

import io
import json

import pytest

import deltaai as dai

CSV = "rain,wet,size\n" + "no,no,1.5\nyes,yes,2.5\nno,?,0.5\n,yes,3.25\n" * 12


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    return path


def test_a_table_becomes_a_model_that_answers(run, data, tmp_path):
    path = tmp_path / "m.bif"
    code, out, err = run("learn", data, "-o", path, "--bins", "2")
    assert code == 0, err
    assert "log-likelihood of a row" in out
    assert "cut into 2 bins" in out
    code, out, err = run("query", path, "-e", "wet=yes", "--json")
    assert code == 0, err
    assert json.loads(out)["status"] == "exact"


def test_standard_input_and_json(run, monkeypatch, tmp_path):
    path = tmp_path / "m.uai"
    for words, said in ((["--json"], '"num_rows": 48'), (["--csv"], "held_out_log_likelihood")):
        monkeypatch.setattr("sys.stdin", io.StringIO(CSV))
        code, out, err = run("learn", "-", "-o", path, "--structure", "independent", *words)
        assert code == 0, err
        assert said in out
        assert dai.read(path).num_variables == 3


def test_the_structure_of_a_file_and_a_latent_variable(run, tmp_path):
    skeleton = dai.FactorGraph(
        [
            dai.Variable("kind", 2),
            dai.Variable("rain", ["no", "yes"]),
            dai.Variable("wet", ["no", "yes"]),
        ],
        [
            dai.ConditionalTable("kind", [], [0.5, 0.5]),
            dai.ConditionalTable("rain", ["kind"], [[0.5, 0.5], [0.5, 0.5]]),
            dai.ConditionalTable("wet", ["kind"], [[0.5, 0.5], [0.5, 0.5]]),
        ],
    )
    dai.write(skeleton, tmp_path / "s.bif")
    (tmp_path / "d.csv").write_text("rain,wet\n" + "no,no\nyes,yes\n" * 30)
    out = tmp_path / "m.bif"
    words = ["learn", tmp_path / "d.csv", "-o", out, "--structure", tmp_path / "s.bif"]
    assert "latent" in run(*words)[2]
    code, _, err = run(*words, "--latent", "kind=2", "--seed", "1")
    assert code == 0, err
    found = dai.query(dai.read(out), evidence={"wet": "yes"}).marginals["rain"]
    assert found[1] > 0.9


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", [], "first line must name variables"),
        ("a,b\n", [], "no rows"),
        ("a,b\n1\n", [], "expected 2 cells"),
        ("a,a\n1,2\n", [], "two columns have one name"),
        ("a;b\n1;2\n", [], "separated by commas, not by ';'"),
        ("a,b\nx,1\n" * 9, ["--time-limit", "1e-6"], "time limit of 1e-06 s"),
        ("a,b\n?,1\nx,?\n" * 99, ["--time-limit", "3e-3"], "time limit of 0.003 s"),
        (
            "a,b\n1,2\n" * 9999,
            ["--memory-limit", "1MB", "--structure", "grid 1x2"],
            "need about 4.6 MiB and the memory limit is 1.0 MiB",
        ),
        ("a,\n1,2\n", [], "column has no name"),
        ("a,b\n?,1\n?,2\n", [], "'a' has no known cell"),
        ('a\n"x\n', [], "not a CSV file"),
        (
            "a\n" + "".join(f"{k}.5\n" for k in range(80)),
            [],
            "say with --bins into how many bins to cut 'a'",
        ),
        ("a,b\n1,2\n", ["--structure", "chowliu"], "did you mean"),
        ("a,b\n1,2\n", ["--latent", "k"], "NAME=NUMBER"),
        ("a,b\n1,2\n", ["--bins", "a"], "NAME=NUMBER"),
        ("a,b\n1,2\n", ["--prior", "-2"], "--prior"),
        ("a,b\n1,2\n", ["--held-out", "1"], "--held-out"),
        ("a,b\n1,2\n", ["--steps", "0"], "--steps"),
        ("a,b\n" + "1,2\n" * 9999, ["--memory-limit", "10KB"], "memory limit"),
    ],
)
def test_one_line_says_what_to_do(run, tmp_path, text, words, said):
    path, out = tmp_path / "d.csv", tmp_path / "m.dai"
    path.write_text(text)
    code, _, err = run("learn", path, "-o", out, *words)
    assert code in {2, 3}
    assert said in " ".join(err.split()), err
    assert "Traceback" not in err
    assert [each.name for each in tmp_path.iterdir()] == ["d.csv"]


def test_a_missing_file_and_a_strange_output(run, tmp_path, data):
    assert "no such file" in run("learn", tmp_path / "no.csv", "-o", tmp_path / "m.bif")[2]
    code, _, err = run("learn", data, "-o", tmp_path / "m.txt")
    assert code == 2
    assert ".bif" in err
