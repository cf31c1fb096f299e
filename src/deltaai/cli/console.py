"""The two streams that people read: what is said there, how much of it, and in which characters.

Results go to the output stream, everything beside them to the error stream. Bars, ``±`` and the
like are written with ASCII characters where the locale or the stream's encoding has no others;
names and labels stay what they are. Documents for programs (JSON, CSV) do not pass through here.
Nothing in this file needs torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from rich.console import Console

_PLAIN = str.maketrans({"█": "#", "±": "+-", "·": ".", "×": "x", "…": "...", "━": "-", "╸": "-"})

_verbosity = 0


class _PeopleStream:
    """Standard output or error as it is at the moment, in characters that the reader has."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _stream(self) -> Any:  # noqa: ANN401 - whatever stands in its place
        return getattr(sys, self._name)

    @property
    def encoding(self) -> str:
        """What rich draws its lines by: it keeps to ASCII where this is not a UTF."""
        return "ascii" if self._is_ascii else "utf-8"

    @property
    def _is_ascii(self) -> bool:
        try:
            "█±".encode(getattr(self._stream, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return True
        return _locale_name() in {"C", "POSIX"}

    def write(self, text: str) -> int:
        return int(self._stream.write(text.translate(_PLAIN) if self._is_ascii else text))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


def _locale_name() -> str:
    """The locale that decides about characters, if the user named one."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return next(filter(None, named), "")


out = Console(highlight=False, file=cast(TextIO, _PeopleStream("stdout")))
err = Console(highlight=False, file=cast(TextIO, _PeopleStream("stderr")))


def set_verbosity(level: int) -> None:
    """Say less (-1), as much as usual (0), or more (1)."""
    global _verbosity  # noqa: PLW0603
    _verbosity = level


def is_verbose() -> bool:
    """Whether a user wants to know more than usual."""
    return _verbosity > 0


def note(text: str) -> None:
    """Say something beside the answer, on the error stream, unless nothing is wanted."""
    if _verbosity >= 0:
        err.print(text, markup=False, soft_wrap=True)


def notes(some: Iterable[str]) -> None:
    """Say what to know about a model, beside an answer."""
    for sentence in some:
        note(f"note: {sentence}")


def detail(text: str) -> None:
    """Say something that only matters to those who want to know."""
    if is_verbose():
        err.print(text, markup=False, soft_wrap=True, style="dim")


def has_progress() -> bool:
    """Whether progress is to be shown: on a terminal, unless nothing is wanted."""
    return err.is_terminal and _verbosity >= 0
