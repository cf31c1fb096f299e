"""Completion of variables and states, without the library: a model's names are at the top of it.

A whole model takes seconds to import the library for and to read. Here only the names are looked
for, in files that are as they should be; of any other nothing is completed.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

_MOST_BYTES = 2**24
_VARIABLE = re.compile(
    r"\bvariable\s+(\"[^\"]*\"|[^\s{]+)\s*\{[^{}]*\[\s*\d+\s*\]\s*\{([^{}]*)\}", re.DOTALL
)
_WORD = re.compile(r"\"([^\"]*)\"|([^\s,]+)")

States = Mapping[str, Sequence[str]]


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of variables, after those that stand there already."""
    done, begun = split_names(incomplete)
    return [done + name for name in _states_of(context) if name.startswith(begun)]


def complete_evidence(context: typer.Context, incomplete: str) -> list[str]:
    """Names of variables, then their states."""
    done, begun = split_names(incomplete)
    name, equals, state = begun.partition("=")
    known = _states_of(context)
    if not equals:
        return [f"{done}{each}=" for each in known if each.startswith(begun)]
    return [f"{done}{name}={each}" for each in known.get(name, ()) if each.startswith(state)]


def split_names(text: str) -> tuple[str, str]:
    """Split a list that is being typed into what is done and what is begun.

    >>> split_names("rain,we"), split_names("ra")
    (('rain,', 'we'), ('', 'ra'))
    """
    done, comma, begun = text.rpartition(",")
    return done + comma, begun


def _states_of(context: typer.Context) -> States:
    """States of the variables of a command line that is not finished yet."""
    # While an option waits for its value the line is not parsed, so its words are looked through.
    words = [context.params.get("file"), *os.environ.get("COMP_WORDS", "").split()[2:]]
    for word in words:
        if word is not None and (found := read_states(_file_of(word))):
            return found
    return {}


def _file_of(word: str | Path) -> Path:
    """The file itself, or that of an example."""
    path = Path(word)
    if path.exists() or not str(word).isidentifier():
        return path
    return next((Path(__file__).parents[1] / "examples").glob(f"{word}.*"), path)


def read_states(path: Path) -> States:
    """Names of the variables of a model or sampler and their states; none if it cannot be read."""
    try:
        content = _beginning(path)
        is_packed = path.suffix.lower() == ".gz"
        match (path.with_suffix("") if is_packed else path).suffix.lower():
            case ".bif":
                return _of_bif(content.decode())
            case ".uai":
                return _of_uai(content.decode())
            case ".dai":
                return _of_tensors(content)
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, zlib.error):
        pass
    return {}


def _beginning(path: Path) -> bytes:
    with path.open("rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        return stream.read(_MOST_BYTES)


def _of_bif(text: str) -> States:
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return {
        name.strip('"'): [quoted or bare for quoted, bare in _WORD.findall(listed)]
        for name, listed in _VARIABLE.findall(plain)
    }


def _of_uai(text: str) -> States:
    words = text.split(maxsplit=2)
    sizes = words[2].split(maxsplit=int(words[1]))[: int(words[1])]
    return {f"x{number}": list(map(str, range(int(size)))) for number, size in enumerate(sizes)}


def _of_tensors(content: bytes) -> States:
    """The header of a file of tensors is its length in eight bytes and then JSON."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    model = json.loads(header["__metadata__"]["deltaai"])["metadata"]["model"]
    # Of a real variable there is a support, and nothing to complete.
    return {name: said if isinstance(said, list) else [] for name, said in model["variables"]}
