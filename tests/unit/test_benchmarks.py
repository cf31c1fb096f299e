"""What the benchmarks import is there: they are run by hand, so nothing else would notice."""

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def imported(script):
    """Modules of ours that a script imports, and names from them."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deltaai"):
            yield from ((node.module, alias.name) for alias in node.names)


def is_there(module, name):
    """Whether a module holds a name, be it a module of its own that nobody imported yet."""
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def test_there_are_benchmarks():
    assert len(SCRIPTS) > 20


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_imports_of_a_benchmark_are_there(script):
    for module, name in imported(script):
        assert is_there(module, name), f"{module} has no {name}"
