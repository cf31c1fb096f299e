"""The pages of documentation run as they are printed: here, and after a plain installation."""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("run_page.py")
PAGES = [
    "README.md",
    "docs/walkthrough.md",
    "docs/learning.md",
    "docs/continuous.md",
    "docs/extending.md",
]


@pytest.fixture(scope="module")
def run_page():
    spec = importlib.util.spec_from_file_location("run_page", RUNNER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*words, folder, **environment):
    """Run a command with one thread and nothing of a terminal."""
    unwanted = {"PYTHONPATH", "COLUMNS", "FORCE_COLOR", "DELTAAI_DATA"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    kept |= {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "page", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])]
)
def test_page_runs_as_printed(page, tmp_path):
    done = run(
        *(sys.executable, RUNNER, ROOT / page),
        folder=tmp_path,
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONPATH=str(ROOT / "src"),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "blocks run as printed" in done.stdout


@pytest.mark.slow
def test_pages_run_after_a_plain_installation(tmp_path):
    """A wheel in an empty environment, with extras only where a page says so."""
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    folder.mkdir()
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "-q")
    constraints = ROOT / "constraints.txt"
    wheels = tmp_path / "wheels"
    for step in (
        (*pip, "wheel", "--no-deps", "-w", wheels, ROOT),
        (*pip, "install", "-c", constraints, "--find-links", wheels, "deltaai"),
    ):
        done = run(*step, folder=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
    where = run(python, "-c", "import deltaai; print(deltaai.__file__)", folder=folder)
    assert str(environment) in where.stdout  # not the working copy
    for missing in ("pandas", "matplotlib", "pytest"):
        assert run(python, "-c", f"import {missing}", folder=folder).returncode != 0, missing
    for page in PAGES:
        done = run(
            *(python, RUNNER, "--install", ROOT / page),
            folder=folder,
            PATH=f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            PIP_CONSTRAINT=str(constraints),
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_extensions_are_short(run_page):
    found = run_page.blocks((ROOT / "docs/extending.md").read_text())
    lengths = [len(content.splitlines()) for kind, content, _ in found if kind == "python"]
    assert len(lengths) >= 12  # for each of six things what it is, and its registration
    assert max(lengths) < 60


def test_what_is_printed_is_compared(run_page):
    expected = "log Z  -0.693147 in 0.01 s\n...\n  limit 3.0 GiB\n"
    assert run_page.difference(expected, "log Z -0.693149 in 3.5 s\n\nmore\nlimit 1.5 GiB") == ""
    assert run_page.difference(expected, "log Z -0.793 in 3.5 s\nlimit 1.5 GiB") != ""
    assert run_page.difference(expected, "log Z -0.693147 in 3.5 s") != ""
    assert run_page.difference("status exact", "status untrusted") != ""
    assert run_page.difference("0.1", "0.1 0.2") != ""
    assert run_page.difference("one", "one\ntwo") != ""


def test_a_page_that_does_not_run_is_found(run_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\na = 1\nprint(a)\n```\n\n```text\n1\n```\n\n```console\n$ echo b\nb\n```\n"
    )
    assert run_page.run_page(page) == 2
    for wrong in (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ echo b\nc\n```\n",
        "```console\n$ false\n```\n",
        "```ruby\nputs 1\n```\n",
    ):
        page.write_text(wrong)
        with pytest.raises(SystemExit):
            run_page.run_page(page)
    page.write_text("```python\nundefined\n```\n")
    with pytest.raises(NameError):
        run_page.run_page(page)
