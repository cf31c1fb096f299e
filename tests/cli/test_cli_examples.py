"""The command line takes the models that come with the package by name."""

import pytest


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["query", "asia", "-e", "smoke=yes", "--of", "lung"], "0.100000"),
        (["plan", "grid"], "Plan for grid (100 variables)"),
        (["check", "sprinkler"], "sprinkler is readable"),
        (["sample", "asia", "-n", "2"], "2 of 2 samples"),
    ],
)
def test_examples_need_no_file(run, words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert code == 0, err
    assert expected in out


def test_an_unknown_name_is_refused_with_the_names_there_are(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("query", "aisa")
    assert code == 2
    assert "no such file, and no such example; did you mean 'asia'? Examples: sprinkler, " in err
    assert "sprinkler, asia, grid, lattice" in " ".join(run("--help")[1].split())
