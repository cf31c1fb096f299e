"""The command line for hostile tests, as the tests of the command line run it."""

from cli.conftest import run

__all__ = ["run"]
