"""A text and where it came from, so that every complaint about it can name a file and a line.

Parsers work on the whole text and remember positions, not lines: counting lines costs a pass over
the text, and is done here, only when something is wrong. Nothing is parsed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from deltaai.errors import ConversionError, FormatError, one_line
from deltaai.watch import look

_WORD = re.compile(r"\S+")
_SPACE = re.compile(r"\s")
_PIECE = 2**20  # characters that are split at once
_BYTES_PER_WORD = 80  # of its object, and where it is listed


@dataclass(frozen=True)
class Source:
    """The text of a file.

    Parameters
    ----------
    path : the file, or a label such as ``"<string>"``.
    text : its content; lines end in a line feed.
    """

    path: str
    text: str

    def words(self) -> list[str]:
        """The text, split at white space.

        A million words take eighty megabytes, so both are looked at on the way.
        """
        found: list[str] = []
        start, end = 0, len(self.text)
        while start < end:
            space = _SPACE.search(self.text, min(start + _PIECE, end))
            stop = end if space is None else space.start()
            found += self.text[start:stop].split()
            start = stop
            look(_BYTES_PER_WORD * len(found) + 2 * end)
        return found

    def error(self, position: int, message: str) -> FormatError:
        """Make the error for a problem at a position of the text."""
        line = self.text.count("\n", 0, position) + 1
        return FormatError(self.path, line, one_line(message))

    def error_at_word(self, index: int, message: str) -> FormatError:
        """Make the error for a problem at a word, as ``text.split()`` numbers them.

        A number past the last word means the end of the file.
        """
        word = next(islice(_WORD.finditer(self.text), index, None), None)
        return self.error_at_end(message) if word is None else self.error(word.start(), message)

    def error_at_end(self, message: str) -> FormatError:
        """Make the error for something missing at the end of the text."""
        return self.error(len(self.text.rstrip()), message)


def decoded(content: bytes, path: str, lines_before: int = 0) -> str:
    """Turn bytes into text, or say which line is none.

    >>> decoded("\u00e4".encode(), "a.csv") == "\u00e4"
    True
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + content.count(b"\n", 0, error.start) + 1
        remedy = (
            "it is compressed, so its name must end in .gz"
            if lines_before == 0 and content.startswith(b"\x1f\x8b")
            else "save it as UTF-8"
        )
        raise FormatError(
            path, line, f"byte 0x{content[error.start]:02x} is not text in UTF-8; {remedy}"
        ) from None


def encoded(text: str) -> bytes:
    """Turn text into bytes, or say which character of a name or label no file can hold."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConversionError(
            f"a name or a label has {text[error.start]!r}, which is not UTF-8: rename it"
        ) from None


def excerpt(found: str, longest: int = 40) -> str:
    """Quote what was found, on one line and not all of it when it is long.

    >>> excerpt("0.1x"), excerpt(""), excerpt("a" * 100)
    ("'0.1x'", 'the end of the file', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'...")
    """
    if not found.strip():
        return "the end of the file"
    words = " ".join(found[: 4 * longest].split())
    return repr(words) if len(words) <= longest else f"{words[:longest]!r}..."
