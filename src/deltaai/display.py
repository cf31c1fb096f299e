"""How objects show themselves: a title, some lines of name and value, and doubts.

One description serves a prompt (``repr``), ``print`` and notebooks (``_repr_html_``), where
whatever a user named is escaped. A class says what there is to show in ``_card`` and gets the rest
from :class:`Shown`.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from deltaai.errors import scientific

_WIDEST_NAME = 40
_LONGEST_VALUE = 400
_LINE, _LEAST_ROOM = 100, 40  # characters of a line, and of a value in it
_DOUBTED = "not to be trusted"


@dataclass(frozen=True)
class Card:
    """What there is to show of an object.

    Parameters
    ----------
    title : what it is, in a few words.
    rows : names and values, one line each.
    doubts : why it is not to be trusted, one sentence each.
    """

    title: str
    rows: tuple[tuple[str, str], ...] = ()
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As text.

        >>> print(Card("Rain", (("P(rain)", "no 0.8, yes 0.2"), ("log Z", "0"))))
        Rain
          P(rain)  no 0.8, yes 0.2
          log Z    0
        """
        width = min(max((len(name) for name, _ in self.rows), default=0), _WIDEST_NAME)
        indent = " " * (width + 4)
        room = max(_LINE - len(indent), _LEAST_ROOM)
        lines = [
            f"  {name:<{width}}  "
            + f"\n{indent}".join(textwrap.wrap(_short(value), room, break_long_words=False))
            for name, value in self.rows
        ]
        doubts = [f"  {_DOUBTED}: {doubt}" for doubt in self.doubts]
        return "\n".join([self.title, *lines, *doubts])

    def html(self) -> str:
        """As a table for a notebook; names and labels are escaped.

        >>> Card("A <b>", (("x", "1"),)).html()
        '<table><caption>A &lt;b&gt;</caption><tr><th>x</th><td>1</td></tr></table>'
        """
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(_short(value))}</td></tr>"
            for name, value in self.rows
        )
        doubts = "".join(f"<p><b>{_DOUBTED}</b>: {html.escape(doubt)}</p>" for doubt in self.doubts)
        return f"<table><caption>{html.escape(self.title)}</caption>{rows}</table>{doubts}"


class Shown:
    """Shows itself at a prompt, in print and in a notebook, as its card says."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self._card())

    def __str__(self) -> str:
        return str(self._card())

    def _repr_html_(self) -> str:
        return self._card().html()


def quantity(number: int) -> str:
    """Write a count for people.

    >>> quantity(1234), quantity(5_000_000), quantity(2**70)
    ('1,234', '5,000,000', '1.2e+21')
    """
    return f"{number:,}" if number < 10**12 else scientific(number)


def plural(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listing(items: Iterable[str], most: int = 8) -> str:
    """Write some of many things.

    >>> listing("abcd", most=2), listing("ab")
    ('a, b, ... (4 in all)', 'a, b')
    """
    all_items = list(items)
    if len(all_items) <= most:
        return ", ".join(all_items)
    return f"{', '.join(all_items[:most])}, ... ({len(all_items)} in all)"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
