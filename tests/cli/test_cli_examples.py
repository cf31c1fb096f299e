"""The command line takes the models that come with the package by name."""

import os
import resource
import subprocess
import sys

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


@pytest.mark.slow
def test_the_demo_shows_a_model_too_wide_for_tables_in_a_minute(tmp_path):
    """By the seconds that the processor worked, which a busy machine does not stretch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "deltaai.cli", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    assert "Plan for 1024 variables: amortised" in done.stdout
    assert done.stdout.count(": exact") == 2
