"""The blocks of a BIF file: variables with their states, and tables not yet read.

A block that matches its pattern is taken in one step; only when it does not is it walked through
piece by piece, to say which piece is missing. Whether the names in the blocks fit together is not
asked here: see :mod:`deltaai.io.bif.reader`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deltaai.errors import FormatError
from deltaai.io.bif.text import WORD, BifText
from deltaai.watch import look

# What a block consists of after its keyword: a pattern, and what to call it when it is missing.
_Pieces = tuple[tuple[str, str], ...]
_NETWORK: _Pieces = ((rf"(?:\s+{WORD})?", "a name"), (r"\s*\{", "{"), (r"\s*\}", "}"))
_VARIABLE: _Pieces = (
    (rf"\s+({WORD})", "the name of the variable"),
    (r"\s*\{", "{"),
    (r"\s*type\b", "type"),
    (r"\s*discrete\b", "discrete (other types are not supported)"),
    (r"\s*\[", "["),
    (r"\s*([0-9]{1,9})", "the number of states"),
    (r"\s*\]", "]"),
    (r"\s*\{", "{"),
    (r"([^{}()\[\];|]*)", "the states"),
    (r"\}", "} after the states"),
    (r"\s*;", "; after the states"),
    (r"\s*\}", "}"),
)
_PROBABILITY: _Pieces = (
    (r"\s*\(", "("),
    (r"([^{}()\[\];]*)", "a variable and its parents"),
    (r"\)", ") after the variable and its parents"),
    (r"\s*\{", "{"),
    (r"([^{}]*)", "rows"),
    (r"\}", "} after the rows"),
)
_BLOCKS = {
    keyword: (pieces, re.compile("".join(pattern for pattern, _ in pieces)))
    for keyword, pieces in (
        ("network", _NETWORK),
        ("variable", _VARIABLE),
        ("probability", _PROBABILITY),
    )
}
_KEYWORD = re.compile(r"\s*(network|variable|probability)\b")


@dataclass(frozen=True)
class Labels:
    """The states of a variable: their names, and their numbers by the word in the file."""

    names: tuple[str, ...]
    index: dict[str, int]


@dataclass(frozen=True)
class VariableBlock:
    """Where a block begins, and the states of its variable."""

    position: int
    labels: Labels


@dataclass(frozen=True)
class ProbabilityBlock:
    """Where a block begins, the words in its head, and where its rows begin and end."""

    position: int
    child: str
    parents: list[str]
    rows: tuple[int, int]


def read_blocks(
    cleaned: BifText,
) -> tuple[dict[str, VariableBlock], list[ProbabilityBlock]]:
    """Read all blocks: those of variables by the word that names them, and the others in order."""
    reader = _BlockReader(cleaned)
    reader.read()
    return reader.variables, reader.probabilities


class _BlockReader:
    """Goes from block to block and collects them."""

    def __init__(self, cleaned: BifText) -> None:
        self.cleaned = cleaned
        self.text = cleaned.text
        self.variables: dict[str, VariableBlock] = {}
        self.probabilities: list[ProbabilityBlock] = []
        self.num_networks = 0

    def read(self) -> None:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            look()
            keyword = _KEYWORD.match(self.text, position)
            if keyword is None:
                found = self.cleaned.excerpt(self.text[position : position + 200])
                position = end - len(self.text[position:end].lstrip())
                raise self.error(
                    position, f"expected network, variable or probability, found {found}"
                )
            pieces, pattern = _BLOCKS[keyword[1]]
            block = pattern.match(self.text, keyword.end())
            if block is None:
                raise self.explain(keyword[1], pieces, keyword.end())
            if keyword[1] == "network":
                self.add_network(keyword.start(1))
            elif keyword[1] == "variable":
                self.add_variable(keyword.start(1), block)
            else:
                self.add_probability(keyword.start(1), block)
            position = block.end()
        if not self.variables:
            raise self.cleaned.source.error_at_end("expected a variable block, found none")

    def explain(self, keyword: str, pieces: _Pieces, position: int) -> FormatError:
        """Find the first piece of a block that is not there."""
        for pattern, missing in pieces:  # noqa: B007 (needed after the loop)
            match = re.compile(pattern).match(self.text, position)
            if match is None:
                break
            position = match.end()
        rest = self.text[position : position + 200]
        position = min(position + len(rest) - len(rest.lstrip()), len(self.text.rstrip()))
        return self.error(
            position, f"{keyword} block: expected {missing}, found {self.cleaned.excerpt(rest)}"
        )

    def add_network(self, position: int) -> None:
        self.num_networks += 1
        if self.num_networks > 1:
            raise self.error(position, "found a second network block; expected one network a file")

    def add_variable(self, position: int, block: re.Match[str]) -> None:
        word, num_states, listed = block.groups()
        name = self.cleaned.name(word)
        if not name:
            raise self.error(position, "a variable has an empty name; expected a name")
        if word in self.variables:
            raise self.error(position, f"variable {name!r} has a second variable block")
        labels = listed.replace(",", " ").split()
        if not labels or len(labels) != int(num_states):
            raise self.error(
                block.start(3),
                f"variable {name!r} has [ {num_states} ] states but lists {len(labels)}: "
                f"{self.cleaned.excerpt(listed)} (a label with spaces must be quoted)",
            )
        known = Labels(
            tuple(self.cleaned.name(label) for label in labels),
            {label: state for state, label in enumerate(labels)},
        )
        if len(known.index) < len(labels):
            # The index keeps the last place of a label, so an earlier one does not fit it.
            double = next(
                label for state, label in enumerate(labels) if known.index[label] != state
            )
            raise self.error(
                block.start(3),
                f"variable {name!r} has the state {self.cleaned.name(double)!r} twice",
            )
        self.variables[word] = VariableBlock(position, known)

    def add_probability(self, position: int, block: re.Match[str]) -> None:
        child, bar, parents = block[1].partition("|")
        children, parents = child.split(), parents.replace(",", " ").split()
        if len(children) != 1 or "," in child:
            raise self.error(
                position,
                "expected ( variable ) or ( variable | parent, parent ) after probability, found "
                f"{self.cleaned.excerpt('(' + block[1] + ')')}",
            )
        if (bar and not parents) or "|" in block[1].partition("|")[2]:
            raise self.error(
                position,
                f"expected parents after one |, found {self.cleaned.excerpt('(' + block[1] + ')')}",
            )
        self.probabilities.append(ProbabilityBlock(position, children[0], parents, block.span(2)))

    def error(self, position: int, message: str) -> FormatError:
        return self.cleaned.source.error(position, message)
