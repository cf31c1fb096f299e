"""For all tests: the same examples in every run, no deadlines, one thread, the command line."""

import sys

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture
def one_thread():
    """Let torch use one thread: for tensors so small that a second only waits for the first."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process; return exit code, output and error stream."""
    from deltaai.cli.entry import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["deltaai", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
