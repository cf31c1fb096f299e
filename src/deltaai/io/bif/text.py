"""The text of a BIF file without what carries no meaning, and with names that are plain words.

Comments and properties are blanked. A quoted name becomes the bare word if it could have been
written bare, and otherwise a placeholder word, so that the parser can split on separators without
minding quotes; :meth:`BifText.name` gives the name back. Line breaks stay where they are, so the
lines keep their numbers. Quotes have no escapes: a quoted name ends at the next quote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deltaai.io.source import Source, excerpt

# Characters that end a bare word.
_SEPARATORS = r'\s"{}()\[\];,|'
WORD = rf"[^{_SEPARATORS}]+"
KEYWORDS = frozenset(
    ("network", "variable", "probability", "property", "type", "discrete", "table", "default")
)

_MARKS = ('"', "//", "/*")
# Each alternative also matches when it is not closed, up to the end: the search never goes back.
_MARKED = re.compile(r'"[^"\n]*"?|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_PROPERTY = re.compile(r"(?<=[{;])(\s*)property\b(?!\s*[,}])([^;]*;?)")
_BARE = re.compile(WORD)
# Stand around the number of a placeholder; no text has them.
_OPEN, _CLOSE = "\x01", "\x02"
_PLACEHOLDER = re.compile(rf"{_OPEN}[0-9]+{_CLOSE}")


@dataclass(frozen=True)
class BifText:
    """Text ready to be parsed.

    Parameters
    ----------
    source : the text, for positions in error messages.
    quoted : the name behind each placeholder.
    """

    source: Source
    quoted: dict[str, str]

    @property
    def text(self) -> str:
        """The text itself."""
        return self.source.text

    def name(self, word: str) -> str:
        """Return the name that a word of the text stands for."""
        return self.quoted.get(word, word)

    def excerpt(self, found: str, longest: int = 40) -> str:
        """Quote a piece of the text as it stands in the file."""
        return excerpt(_PLACEHOLDER.sub(lambda match: self.name(match.group()), found), longest)


def is_bare(name: str) -> bool:
    """Whether a name can be written without quotes.

    >>> is_bare("Asy/Patch"), is_bare("New York"), is_bare("table"), is_bare("a//b")
    (True, False, False, False)
    """
    is_word = _BARE.fullmatch(name) is not None and name not in KEYWORDS
    return is_word and not any(mark in name for mark in (*_MARKS, _OPEN, _CLOSE))


def clean(source: Source) -> BifText:
    """Blank comments and properties, and replace quoted names by words."""
    text = source.text
    for mark in (_OPEN, _CLOSE):
        if mark in text:
            raise source.error(text.index(mark), "found a control character; expected text")
    placeholders: dict[str, str] = {}

    def replacement(match: re.Match[str]) -> str:
        piece = match.group()
        if piece.startswith("/"):
            if piece.startswith("/*") and not (piece.endswith("*/") and len(piece) >= 4):
                raise source.error(match.start(), "this comment is not closed; expected */")
            return " " + "\n" * piece.count("\n")
        if len(piece) < 2 or not piece.endswith('"'):
            found = excerpt(piece)
            raise source.error(
                match.start(), f'this name is not closed; expected " on the same line: {found}'
            )
        name = piece[1:-1]
        if is_bare(name):
            return f" {name} "
        return f" {placeholders.setdefault(name, f'{_OPEN}{len(placeholders)}{_CLOSE}')} "

    if any(mark in text for mark in _MARKS):
        text = _MARKED.sub(replacement, text)
    if "property" in text:
        text = _PROPERTY.sub(lambda match: "\n" * match.group().count("\n"), text)
    quoted = {placeholder: name for name, placeholder in placeholders.items()}
    return BifText(Source(source.path, text), quoted)
