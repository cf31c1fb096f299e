"""Every name in the code is one, in annotations too: shapes in strings keep others from looking.

``Float[Tensor, "batch"]`` reads as a name in quotes, so mypy and ruff are told to overlook names
that are not there. Here strings are left out, and all other names are looked for in their module.
"""

import ast
import builtins
from pathlib import Path

import pytest

import deltaai

SOURCES = sorted(Path(deltaai.__file__).parent.rglob("*.py"))


def undefined_names(tree):
    """Names that nothing in the module binds, wherever it does so, with their lines."""
    bound = {*vars(builtins), "__file__"}
    used = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {(name.asname or name.name).partition(".")[0] for name in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                bound.add(name)
            case ast.Name(ctx=ast.Load()):
                used.append(node)
            case ast.Name(id=name):
                bound.add(name)
    return sorted(f"{name.lineno}: {name.id}" for name in used if name.id not in bound)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCES[0].parent)))
def test_every_name_is_one(path):
    assert undefined_names(ast.parse(path.read_text("utf-8"))) == []


def test_the_check_sees_what_it_should():
    code = (
        "from jaxtyping import Int\n"
        'def f(x: int | Progress, y: Int[Tensor, "batch"]) -> Nope:\n'
        "    return forgotten(x)"
    )
    expected = ["2: Nope", "2: Progress", "2: Tensor", "3: forgotten"]
    assert undefined_names(ast.parse(code)) == expected
