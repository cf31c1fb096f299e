"""Ways to spoil a file or a value, as hypothesis strategies: the same ones in every run."""

from __future__ import annotations

import copy
import gzip
import re
from typing import Any

from hypothesis import strategies as st

# Words that have broken readers of numbers, names and paths somewhere.
NASTY_WORDS = (
    "nan",
    "-nan",
    "inf",
    "-inf",
    "Infinity",
    "-1",
    "-0",
    "0",
    "1",
    "2",
    "3",
    "31",
    "32",
    "65536",
    "1000000",
    "1000000000",
    "99999999999",
    "18446744073709551616",
    "9" * 400,
    "9" * 5000,
    "0.5",
    "1e309",
    "-1e309",
    "1e-400",
    "1e999999999",
    "0x10",
    "1_000",
    "1,5",
    "٣",
    "½",
    "",
    " ",
    "\t",
    "\n",
    "\r",
    "\x00",
    "\x01",
    "\x0c",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "\ufeff",
    "é",
    "🎲",
    "a" * 10_000,
    "None",
    "true",
    "[]",
    "{}",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "|",
    "=",
    '"',
    "'",
    "\\",
    "/*",
    "*/",
    "//",
    "#",
    "%",
    "%s",
    "[bold]",
    "[/]",
    "-",
    "--",
    "c",
    "MARKOV",
    "BAYES",
    "network",
    "variable",
    "probability",
    "property",
    "type",
    "discrete",
    "table",
    "default",
)

words = st.one_of(
    st.sampled_from(NASTY_WORDS),
    st.text(max_size=12),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
)

_PIECE = re.compile(rb"\s+|[A-Za-z0-9_.+-]+|.", re.DOTALL)


@st.composite
def mutated(draw: st.DrawFn, valid: tuple[bytes, ...]) -> bytes:
    """A valid file with one to four things wrong in it, or none of it left."""
    content = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 4))):
        content = draw(st.sampled_from(_MUTATIONS))(draw, content, valid)
    return content


def _flip_bytes(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 3)) if content else 0):
        changed[draw(st.integers(0, len(content) - 1))] ^= draw(st.integers(1, 255))
    return bytes(changed)


def _insert_bytes(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    place = draw(st.integers(0, len(content)))
    return content[:place] + draw(st.binary(min_size=1, max_size=8)) + content[place:]


def _replace_word(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    pieces = _PIECE.findall(content)
    if not pieces:
        return content
    places = [i for i, piece in enumerate(pieces) if not piece.isspace()] or [0]
    pieces[draw(st.sampled_from(places))] = draw(words).encode("utf-8", "surrogatepass")
    return b"".join(pieces)


def _move_word(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    pieces = _PIECE.findall(content)
    if not pieces:
        return content
    source, target = (draw(st.integers(0, len(pieces) - 1)) for _ in range(2))
    pieces[target] = pieces[source] if draw(st.booleans()) else b""
    return b"".join(pieces)


def _change_line(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = lines[place] * draw(st.sampled_from((0, 2, 2, 50)))
    return b"".join(lines)


def _swap_lines(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _truncate(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    return content[: draw(st.integers(0, len(content)))]


def _splice(draw: st.DrawFn, content: bytes, valid: tuple[bytes, ...]) -> bytes:
    other = draw(st.sampled_from(valid))
    return content[: draw(st.integers(0, len(content)))] + other[draw(st.integers(0, len(other))) :]


def _twice(draw: st.DrawFn, content: bytes, _: tuple[bytes, ...]) -> bytes:
    return content + draw(st.sampled_from((b"", b"\n"))) + content


_MUTATIONS = (
    _flip_bytes,
    _insert_bytes,
    _replace_word,
    _replace_word,
    _move_word,
    _change_line,
    _swap_lines,
    _truncate,
    _splice,
    _twice,
)


@st.composite
def spoilt_gzip(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """A compressed file: whole, or damaged after it was compressed."""
    packed = gzip.compress(draw(contents), mtime=0)
    spoil = draw(st.sampled_from((None, _flip_bytes, _truncate, _twice, _insert_bytes)))
    return packed if spoil is None else spoil(draw, packed, (packed,))


# What JSON can hold in the place of something else.
json_values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((0, 1, -1, 2, 3, 7, 10**6, 10**9, 2**31, 2**63, 10**30, 10**400)),
    st.sampled_from((0.0, -0.0, 0.5, -1.5, 1e300, 1e-300)),
    st.sampled_from(NASTY_WORDS),
    st.sampled_from(([], {}, [[]], [{}], {"": None}, [0, 1, 2], ["one"], [None] * 40)),
    st.sampled_from(({"tensor": "x"}, {"dict": [[1]]}, {"tuple": 3}, {"int": "x"}, {"odd": 0})),
).map(copy.deepcopy)  # each example its own, for it is changed in place


@st.composite
def mutated_json(draw: st.DrawFn, valid: Any) -> Any:
    """A JSON value with one to three of its parts replaced, removed, doubled or wrapped."""
    changed = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = {"root": changed}
        key: Any = "root"
        while isinstance(holder[key], dict | list) and holder[key]:
            if holder[key] is not changed and draw(st.integers(0, 5)) == 0:
                break
            inner = holder[key]
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            holder, key = inner, draw(st.sampled_from(keys))
        match draw(st.sampled_from(("replace", "replace", "remove", "double", "wrap", "nest"))):
            case "replace":
                holder[key] = draw(json_values)
            case "remove":
                del holder[key]
            case "double" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case "double":
                holder[f"{key} again"] = copy.deepcopy(holder[key])
            case "wrap":
                holder[key] = [holder[key]] if draw(st.booleans()) else {"dict": holder[key]}
            case "nest":
                for _ in range(draw(st.sampled_from((3, 60)))):
                    holder[key] = [holder[key]]
    return changed
