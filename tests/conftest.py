"""For all tests: the same examples in every run, no deadlines, one thread, the command line."""

import gc
import sys

import jaxtyping
import pytest
import torch
from hypothesis import settings
from jaxtyping import config

import shape_checks

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")
jaxtyping.jaxtyped = shape_checks.limited


MANY_MODULES = 100
frozen = {"modules": 0}


def pytest_ignore_collect(collection_path):
    """Do not look for examples in what tests share: it would be imported, and train, twice."""
    is_shared = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if is_shared else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector all that is only being made."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_runtest_setup():
    """Check shapes anew, and spare the garbage collector what stays to the end anyway.

    The library collects between the stages of an answer, and went through half a million objects
    of thousands of tests each time: that took longer than most questions. What tests import when
    they first train or ask is as much again, so it is done again after that.
    """
    shape_checks.begin()
    if len(sys.modules) >= frozen["modules"] + MANY_MODULES:
        frozen["modules"] = len(sys.modules)
        gc.collect()
        gc.freeze()


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


@pytest.fixture
def as_a_user_runs_it():
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
