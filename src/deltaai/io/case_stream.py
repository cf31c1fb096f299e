"""Rows of evidence that are read some at a time, so that a table of any length needs little memory.

A file can be read as often as needed. Standard input passes once; where rows must be seen before
they are answered it is put on the disk first, up to a size. Lines are decoded one by one, so that
what is wrong is said with its line; a line without an end is refused, not collected.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from deltaai.budget import Budget
from deltaai.errors import FormatError, format_bytes
from deltaai.io.evidence_table import Rows, blocks_from_csv
from deltaai.io.files import opened
from deltaai.io.source import decoded
from deltaai.models import FactorGraph

LONGEST_LINE = 2**22
MOST_SPOOLED = 2**30  # bytes of standard input that are put on the disk
_CHUNK_BYTES = 2**18


@dataclass(frozen=True)
class CaseStream:
    """A CSV table with names in its first line.

    Parameters
    ----------
    name : what to call it in messages.
    model : the model it is about.
    open_stream : opens it for reading, from its beginning.
    is_repeatable : whether that can be done twice.
    """

    name: str
    model: FactorGraph
    open_stream: Callable[[], AbstractContextManager[BufferedIOBase]]
    is_repeatable: bool = True

    @classmethod
    def of_file(cls, path: Path, model: FactorGraph) -> CaseStream:
        """A file, compressed if its name ends in ``.gz``."""
        is_pipe = path.exists() and not path.is_file()
        return cls(str(path), model, lambda: opened(path), is_repeatable=not is_pipe)

    @classmethod
    def passing(cls, name: str, stream: BufferedIOBase, model: FactorGraph) -> CaseStream:
        """What comes from a pipe, once."""
        return cls(name, model, lambda: nullcontext(stream), is_repeatable=False)

    def blocks(self, rows_at_once: int) -> Iterator[Rows]:
        """States, -1 where a cell is blank, some rows at a time."""
        with self.open_stream() as stream:
            yield from blocks_from_csv(
                text_lines(stream, self.name), self.name, self.model, rows_at_once
            )

    def repeatable(self, budget: Budget) -> CaseStream:
        """The same rows, to be read as often as needed: on the disk, if they come once.

        The file has no name, and is gone when nobody reads it any more.
        """
        if self.is_repeatable:
            return self
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the rows are needed
        total = 0
        with self.open_stream() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                budget.check("the table of evidence")
                total += len(chunk)
                if total > MOST_SPOOLED:
                    raise FormatError(
                        self.name,
                        None,
                        f"holds more than {format_bytes(MOST_SPOOLED)}, and all of it must be seen "
                        "before a sampler can be trained: give the name of a file instead",
                    )
                kept.write(chunk)

        def again() -> AbstractContextManager[BufferedIOBase]:
            kept.seek(0)
            return nullcontext(kept)

        return CaseStream(self.name, self.model, again)


def text_lines(stream: BufferedIOBase, name: str) -> Iterator[str]:
    """Lines of UTF-8 text that end in a line feed, whatever they ended in.

    Parameters
    ----------
    stream : of bytes; it is read as lines are taken.
    name : what to call it in messages.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise FormatError(
                name, number + 1, f"the line is longer than {format_bytes(LONGEST_LINE)}"
            )
        text = decoded(line, name, number)
        if number == 0:
            text = text.removeprefix("\ufeff")
        number += 1
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            yield from io.StringIO(text)
        else:
            yield text
