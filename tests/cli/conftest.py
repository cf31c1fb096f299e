"""The command line, run inside the test's process."""

import sys

import pytest

from deltaai.cli.entry import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process; return exit code, output and error stream."""

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
