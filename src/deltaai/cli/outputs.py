"""Files that a command will write: looked at before anything else, and none lost with another.

Minutes of work must not end at a folder that is not there, and no output may take the place of
what is read or of another output. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from deltaai.errors import ConfigError, OutputError
from deltaai.io import check_replaceable


@dataclass(frozen=True)
class Output:
    """A file that a command is to write.

    Parameters
    ----------
    option : what names it on the command line.
    path : the file; nothing if the option was not given.
    content : what is written to it, in the plural.
    suffixes : what its name may end with, in small letters; capitals will do.
    """

    option: str
    path: Path | None
    content: str
    suffixes: tuple[str, ...]


def check_outputs(outputs: Sequence[Output], inputs: Sequence[Path | None]) -> None:
    """Refuse outputs that cannot be written or would destroy something.

    Parameters
    ----------
    outputs : all that the command may write.
    inputs : all that it reads.

    Raises
    ------
    ConfigError
        For a wrong suffix, a folder, one that is missing or may not be written to, a file that is
        also read, and two outputs that are one file.
    """
    named = [(output, output.path) for output in outputs if output.path is not None]
    for output, path in named:
        if not path.suffix or not path.name.lower().endswith(output.suffixes):
            raise ConfigError(f"{path}: {output.content} are written to {_listed(output)} files")
        if not path.parent.is_dir():
            raise ConfigError(f"there is no folder {path.parent} to write {path.name} to")
        try:
            check_replaceable(path)
        except OutputError as error:
            raise ConfigError(f"{output.option}: {error}") from None
        if any(_is_same(path, read) for read in inputs if read is not None):
            raise ConfigError(
                f"{output.option} {path} is a file that is read, which would be lost: choose "
                "another name"
            )
    for (one, path), (other, again) in combinations(named, 2):
        if _is_same(path, again):
            raise ConfigError(
                f"{one.option} and {other.option} are one file ({again}): give each its own"
            )


class Failures:
    """Outputs that could not be written after all; the others are written all the same.

    >>> failures = Failures()
    >>> with failures.kept():
    ...     raise OutputError("cannot write a.csv: the disk is full")
    >>> failures.tell()
    Traceback (most recent call last):
    ...
    deltaai.errors.OutputError: cannot write a.csv: the disk is full
    """

    def __init__(self) -> None:
        self._messages: list[str] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the failure of one output until the others are written."""
        try:
            yield
        except OutputError as error:
            self._messages.append(str(error))

    def tell(self) -> None:
        """Raise one error for all that failed, if anything did."""
        if self._messages:
            raise OutputError("; ".join(self._messages))


def _listed(output: Output) -> str:
    *rest, last = output.suffixes
    return f"{', '.join(rest)} or {last}" if rest else last


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names stand for one file, through links of both kinds."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them is not there yet
        return path.resolve() == other.resolve()
