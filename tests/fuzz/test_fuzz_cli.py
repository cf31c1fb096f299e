"""The command line: whatever is typed, a known exit code, one line, and whole files or none."""

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from deltaai.arguments import parse_bytes
from deltaai.errors import DeltaAIError
from deltaai.io.atomic import replace_file
from fuzz import campaign_cli as campaign
from fuzz.watching import in_bare_process

PARAMETERS = campaign.parameters()
IDS = [f"{command}-{name}" for command, name in PARAMETERS]


def test_commands_are_found():
    assert {"plan", "check", "query", "fit", "sample", "reproduce"} <= set(campaign.COMMANDS)
    assert ("fit", "output") in PARAMETERS


@pytest.mark.parametrize("command", sorted({"plan", "check", "query", "fit", "sample"}))
def test_unspoilt_command_lines_work(command):
    with campaign.workshop():
        code, _, err = campaign.run_cli(campaign.command_line(command))
    assert code == 0, err


@pytest.mark.parametrize(("command", "name"), PARAMETERS, ids=IDS)
def test_random_words(command, name):
    campaign.random_words(command, name, 6)


def test_random_lines():
    campaign.random_lines(60)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "name"), PARAMETERS, ids=IDS)
def test_random_words_without_type_checks(command, name):
    in_bare_process("campaign_cli", f"random_words({command!r}, {name!r}, 150)", seconds=600)


@pytest.mark.slow
def test_random_lines_without_type_checks():
    in_bare_process("campaign_cli", "random_lines(1500)", seconds=600)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "model.uai", "--steps", "1", "-o", ""],
        ["fit", "model.uai", "--steps", "1", "-o", "out.dai", "--seed", str(2**70)],
        ["sample", "sampler.dai", "-n", "5", "--seed", str(2**70)],
        ["reproduce", "synthetic-gfn", "--scale", "smoke", "--out", "\udcff"],
        ["plan", "two\nlines.uai"],
        ["query", "model.uai", "-e", "x0=" + "9" * 5000],
    ],
)
def test_odd_words_are_bad_input(arguments):
    with (
        campaign.workshop(),
        mock.patch("deltaai.experiments.harness.reproduce.run_parts", return_value=None),
    ):
        code, _, err = campaign.run_cli(arguments)
    assert code == 2
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("amount", ["9" * 400, "9" * 5000, "1" + "0" * 50 + "TB", "0", "0.0kb"])
def test_amounts_of_memory_out_of_range_are_refused(amount):
    with pytest.raises(DeltaAIError, match="not an amount of memory"):
        parse_bytes(amount)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "model.uai", "--evidence", b"\xff=\xfe"],
        ["plan", b"\xff\xfe.uai"],
        ["sample", "model.uai", "-n", "5"],
        ["fit", "sampler.dai", "-o", "out.dai"],
    ],
)
def test_a_real_process_ends_well(arguments):
    with campaign.workshop() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "deltaai.cli", *arguments],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        left = [path.name for path in folder.iterdir() if path.name.startswith((".", "out"))]
    err = done.stderr.decode("utf-8", "replace")
    assert done.returncode in campaign.EXIT_CODES
    campaign.check_ending([str(word) for word in arguments], done.returncode, err)
    assert left == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
