"""The formats of model files by the suffix of their names.

A format turns text into a model and a model into text; opening files, compression, limits and
writing in one piece are the work of :mod:`deltaai.io.files`, the same for all. A new format is one
file and one line here; a user adds one with :func:`register_format`. One format is no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deltaai.errors import ConfigError, FormatError, did_you_mean, shown
from deltaai.io.bif.reader import parse_bif
from deltaai.io.bif.writer import format_bif
from deltaai.io.model_files import format_model_file, read_model_file
from deltaai.io.source import Source
from deltaai.io.uai import format_uai, parse_uai
from deltaai.models import FactorGraph
from deltaai.registry import add_entry, checked_callable

Reader = Callable[[Source], FactorGraph]
Writer = Callable[[FactorGraph], str]


@dataclass(frozen=True)
class Format:
    """A format of models as text.

    Parameters
    ----------
    read : from the text of a file to its model; raises the errors that the source makes.
    write : from a model to text; raises ``ConversionError`` for one that the format cannot hold.
        ``None`` for a format that is only read.
    """

    read: Reader
    write: Writer | None = None


@dataclass(frozen=True)
class BinaryFormat:
    """A format of models that is no text, and is not compressed.

    Parameters
    ----------
    read : from the path of a file to its model.
    write : from a model to the content of a file.
    """

    read: Callable[[Path], FactorGraph]
    write: Callable[[FactorGraph], bytes]


FORMATS: dict[str, Format | BinaryFormat] = {
    ".uai": Format(parse_uai, format_uai),
    ".bif": Format(parse_bif, format_bif),
    ".dai": BinaryFormat(read_model_file, format_model_file),
}
# Suffixes with another meaning, and what is said about them.
_ELSEWHERE = {
    ".evid": " (evidence is read with read_evidence)",
    ".gz": "",
}
_SUFFIX = re.compile(r"\.[a-z0-9_+-]+")


def register_format(
    suffix: str, read: Reader, write: Writer | None = None, *, replace: bool = False
) -> None:
    """Make ``read`` and ``write`` know files whose names end in a suffix, or in it and ``.gz``.

    Parameters
    ----------
    suffix : with its dot, in small letters.
    read, write : see :class:`Format`.
    replace : whether it may take the place of a format with that suffix.
    """
    if not isinstance(suffix, str) or _SUFFIX.fullmatch(suffix) is None:
        raise ConfigError(f"the suffix is {shown(suffix)}: give one such as '.json'")
    if suffix in _ELSEWHERE:
        raise ConfigError(f"files that end in {suffix} are no models: choose another suffix")
    if isinstance(FORMATS.get(suffix), BinaryFormat):
        raise ConfigError(f"files that end in {suffix} are no text: choose another suffix")
    checked_callable("the reader of a format", read, "(source)")
    if write is not None:
        checked_callable("the writer of a format", write, "(model)")
    add_entry(FORMATS, "format", suffix, Format(read, write), replace=replace)


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def model_suffixes(*, is_written: bool = False) -> list[str]:
    """What the names of files end with that can be read, or written; small letters."""
    known = {name: each for name, each in FORMATS.items() if each.write or not is_written}
    packed = [f"{name}.gz" for name, each in known.items() if isinstance(each, Format)]
    return [*known, *packed]


def format_of(path: Path, *, is_written: bool = False) -> Format | BinaryFormat:
    """The format that the name of a file says."""
    suffix = (path.with_suffix("") if is_compressed(path) else path).suffix.lower()
    known = model_suffixes(is_written=is_written)
    if suffix + (".gz" if is_compressed(path) else "") not in known:
        *most, last = known
        hint = _ELSEWHERE.get(suffix) or did_you_mean(suffix, known)
        is_read = suffix in FORMATS and suffix not in known
        problem = "this kind of file is only read" if is_read else "unknown kind of file"
        raise FormatError(path, None, f"{problem}; expected {', '.join(most)} or {last}{hint}")
    return FORMATS[suffix]
