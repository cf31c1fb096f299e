"""The command line in hostile surroundings: every end is one line and an exit code."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import deltaai as dai
from deltaai.cli import console

ROOT = str(Path(dai.__file__).parents[1])
MODULE = [sys.executable, "-m", "deltaai.cli"]


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "s.bif"
    dai.write(dai.zoo.sprinkler(), path)
    return path


@pytest.fixture
def lattice_file(tmp_path):
    path = tmp_path / "m.uai"
    dai.write(dai.zoo.ising_lattice(side=2, sigma=0.3, seed=0), path)
    return path


def start(*words, **others):
    """Run the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": ROOT, **others.pop("env", {})}
    command = [*MODULE, *map(str, words)]
    return subprocess.run(command, env=environment, text=True, check=False, **others)


# -- options that cannot be ------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "-inf"])
@pytest.mark.parametrize("command", ["plan", "query", "fit"])
def test_a_time_limit_is_a_number_of_seconds(run, lattice_file, tmp_path, command, seconds):
    rest = ["-o", tmp_path / "m.dai"] if command == "fit" else []
    code, out, err = run(command, lattice_file, *rest, f"--time-limit={seconds}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--time-limit is" in err


@pytest.mark.parametrize("number", ["0", "-5"])
def test_some_samples_must_be_drawn(run, network, tmp_path, number):
    (tmp_path / "cases.csv").write_text("rain\nyes\n")
    for rest in ([], ["--method", "sampler"], ["--evidence-file", tmp_path / "cases.csv"]):
        code, out, err = run("query", network, *rest, "--num-samples", number)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"--num-samples is {number}" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "batch_size=0"], "--set batch_size is 0"),
        (["--set", "policy=annealed"], "--set policy is 'annealed' but --set anneal_steps is 0"),
        (["--steps", "-3"], "--steps is -3"),
        (["--set", "anneal_steps=9", "--steps", "5"], "lower it, or raise --steps"),
        (["--objective", "sub-dags"], "choose --orders many"),
        (["--set", "values=data"], "give --set states"),
        (
            ["--orders", "many", "--objective", "sub-dags", "--evidence", "any"],
            "choose --objective",
        ),
        (["--steps", "5", "--set", "steps=6"], "'steps' is given twice"),
        (["--set", "decay=1", "--set", "decay=0.5"], "'decay' is given twice"),
    ],
)
def test_errors_speak_of_options(run, lattice_file, tmp_path, words, said):
    code, _, err = run("fit", lattice_file, "-o", tmp_path / "m.dai", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert "_=" not in err
    assert "fit(" not in err


def test_errors_speak_of_options_about_zeros_and_methods(run, network, tmp_path):
    err = run("fit", network, "-o", tmp_path / "m.dai", "--steps", 5)[2]
    assert "--smoothing 0.001" in err
    assert "fit(" not in err
    assert "--method is 'exakt'" in run("query", network, "--method", "exakt")[2]


def test_python_hears_of_arguments(tmp_path):
    with pytest.raises(dai.ModelError, match=r"fit with smoothing=0\.001"):
        dai.fit(dai.zoo.sprinkler())
    with pytest.raises(dai.ConfigError, match="choose orders='many'"):
        dai.fit(dai.zoo.ising_lattice(side=2, sigma=0.3, seed=0), objective="sub-dags")


def test_settings_that_the_command_also_has_may_be_set(run, lattice_file, tmp_path):
    words = ["--steps", 12, "--set", "checkpoint_every=10", "-v"]
    code, _, err = run("fit", lattice_file, "-o", tmp_path / "m.dai", *words)
    assert code == 0
    assert "'checkpoint_every': 10" in err


# -- what stands in files and in their names -------------------------------------------------------


@pytest.mark.parametrize("name", ["a[b]c", "[bold]", "[/red]", "[/]", "x]["])
def test_brackets_in_names_are_no_markup(run, network, lattice_file, tmp_path, name):
    path = network.rename(tmp_path / f"{name.replace('/', '!')}.bif")
    for command in ("plan", "check"):
        code, out, err = run(command, path)
        assert (code, err) == (0, "")
        assert path.name in out
    sampler = tmp_path / f"{name.replace('/', '!')}.dai"
    code, out, _ = run("fit", lattice_file, "-o", sampler, "--steps", 1)
    assert code == 0
    assert sampler.name in "".join(out.split())


def test_rows_are_counted_from_one_with_their_line(run, network, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text("rain,wet_grass\nyes,no\n\nno,no\nno,perhaps\n")
    code, _, err = run("query", network, "--evidence-file", cases)
    assert (code, err.count("\n")) == (2, 1)
    assert "row 3 (line 5 of the file): variable 'wet_grass' has no state 'perhaps'" in err
    cases.write_text("rain\nyes\n")
    out = run("query", network, "--evidence-file", cases)[1]
    assert out.splitlines()[1].split()[0] == "1"


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"\xef\xbb\xbfrain\nyes\n", 0, "1 case"),
        (b"rain\r\nyes\r\n", 0, "1 case"),
        (b"rain\nyes\n\xff\n", 2, "standard input, line 3: byte 0xff is not text in UTF-8"),
        (b"\x1f\x8b\x08rain", 2, "standard input, line 1"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_standard_input_is_read_like_a_file(
    run, network, monkeypatch, content, code, said, encoding
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding=encoding))
    ended, _, err = run("query", network, "--evidence-file", "-", "--csv")
    assert ended == code
    assert said in err
    assert err.count("\n") == 1


# -- screens and streams ---------------------------------------------------------------------------


def test_ascii_locales_get_ascii(run, network, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    out = run("query", network, "--of", "rain")[1]
    assert "##########" in out
    assert out.isascii()
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert "██████████" in run("query", network, "--of", "rain")[1]


def test_ascii_streams_get_ascii_and_names_stay_readable(monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    console.out.print("größe █ 1 ± 2")
    stream.flush()
    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfe # 1 +- 2\n"


@pytest.mark.parametrize("columns", ["0", "1", "abc", "-3"])
def test_a_screen_without_width_is_written_to(columns):
    done = start("--help", capture_output=True, env={"COLUMNS": columns})
    assert done.returncode == 0
    assert "Usage: " in done.stdout


def test_a_full_disk_is_called_that():
    with open("/dev/full", "w") as full:
        done = start("--version", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 4
    assert done.stderr == "error: cannot write the output: the disk is full\n"


def test_a_reader_that_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    try:
        done = start("--help", stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_are_no_fault():
    words = " ".join(MODULE)
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"{words} --version {closed}"],
            env={**os.environ, "PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


# Tests that run in the background ignore Ctrl-C, and their children inherit that.
INTERRUPTIBLE = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
open(os.environ["UP"], "w").close()
runpy.run_module("deltaai.cli", run_name="__main__", alter_sys=True)
"""

SLOW_TORCH = """
import os, time
open(os.environ["UP"] + ".torch", "w").close()
try:
    for _ in range(6000):  # a signal that comes just before a sleep is heard after it
        time.sleep(0.01)
except KeyboardInterrupt:
    raise ImportError("half of it")  # as C code makes of an interrupt
"""


def interrupt(words, folder, ready, seconds, program=INTERRUPTIBLE):
    """Send Ctrl-C to a command some seconds after a file appears; return how it ended."""
    paths = os.pathsep.join((str(folder), ROOT))
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths, "UP": str(folder / "up")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (folder / ready).exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_ctrl_c_while_importing_is_one_word(network, tmp_path):
    (tmp_path / "torch.py").write_text(SLOW_TORCH)
    ended = interrupt(["query", network], tmp_path, "up.torch", 0)
    assert ended == (130, "", "interrupted\n")


def test_ctrl_c_after_the_first_line_is_one_word(tmp_path):
    (tmp_path / "contextlib.py").write_text(SLOW_TORCH)  # the first thing that is imported then
    program = INTERRUPTIBLE.replace("runpy.run_module", "from deltaai.cli.entry import main; main")
    program = program.replace('("deltaai.cli", run_name="__main__", alter_sys=True)', "()").replace(
        "runpy, ", ""
    )
    ended = interrupt(["--version"], tmp_path, "up.torch", 0, program)
    assert ended == (130, "", "interrupted\n")


def test_ctrl_c_at_work_is_one_word(run, network, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("deltaai.cli.planning.plan_within", stop)
    assert run("plan", network) == (130, "", "interrupted\n")


# -- the same with answers: each starts torch, which takes seconds ---------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
def test_answers_on_hostile_streams(network, form):
    with open("/dev/full", "w") as full:
        done = start("query", network, *form, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        4,
        "error: cannot write the output: the disk is full\n",
    )
    words = " ".join([*MODULE, "sample", str(network), "-n", "20000", *form])
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -1; exit ${{PIPESTATUS[0]}}"],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"COLUMNS": "0"},
    ],
)
def test_answers_in_hostile_surroundings(network, environment):
    done = start("query", network, "--of", "rain", env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rain" in done.stdout
    assert "\\u" not in done.stdout
    assert done.stdout.isascii() or "COLUMNS" in environment


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 2.0, 5.0])
def test_ctrl_c_at_any_moment(lattice_file, tmp_path, seconds):
    words = ["fit", lattice_file, "-o", tmp_path / "m.dai", "--steps", 1000000]
    words += ["--set", "target_ess=none"]
    code, out, err = interrupt(words, tmp_path, "up", seconds)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
