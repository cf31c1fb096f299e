"""The BIF format: Bayesian networks with names, as in the bnlearn repository.

    network unknown {
    }
    variable rain {
      type discrete [ 2 ] { no, yes };
    }
    variable wet {
      type discrete [ 2 ] { no, yes };
    }
    probability ( rain ) {
      table 0.8, 0.2;
    }
    probability ( wet | rain ) {
      (no) 0.9, 0.1;
      (yes) 0.2, 0.8;
    }

Blocks may stand in any order; commas mean no more than spaces. Every variable has one probability
block, and their order is the order of the model's factors. Rows that do not sum to one are kept as
they are. This file puts the parts together: quotes and comments go in :mod:`deltaai.io.bif.text`,
blocks are found in :mod:`deltaai.io.bif.blocks`, rows are read in :mod:`deltaai.io.bif.rows`.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from deltaai.errors import FormatError, did_you_mean
from deltaai.io.bif.blocks import ProbabilityBlock, read_blocks
from deltaai.io.bif.rows import RowReader
from deltaai.io.bif.text import BifText, clean
from deltaai.io.decimals import logarithms
from deltaai.io.directed import describe_cycle, directed_cycle, missing_child, repeated_child
from deltaai.io.flat_tables import LARGEST_ARITY, FlatTables, offsets_of
from deltaai.io.source import Source
from deltaai.models import FactorGraph, Variable


def parse_bif(source: Source) -> FactorGraph:
    """Read a model from the text of a BIF file."""
    return _Parser(clean(source)).model()


class _Parser:
    """Resolves the names in the blocks, then reads the rows."""

    def __init__(self, cleaned: BifText) -> None:
        self.cleaned = cleaned
        self.variables, self.probabilities = read_blocks(cleaned)

    def model(self) -> FactorGraph:
        number = {word: v for v, word in enumerate(self.variables)}
        scopes = [self.scope(block, number) for block in self.probabilities]
        self.check_directed(scopes)
        labels = [block.labels for block in self.variables.values()]
        reader = RowReader(self.cleaned)
        tables = []
        for block, scope in zip(self.probabilities, scopes, strict=True):
            *parents, child = (labels[v] for v in scope)
            tables.append(reader.table(block.position, block.rows, parents, child))
        flat = FlatTables(
            tuple(scopes),
            offsets_of([len(table) for table in tables]),
            logarithms(np.concatenate(tables)),
        )
        if (place := flat.first_all_zero()) is not None:
            name = self.cleaned.name(self.probabilities[place].child)
            raise self.error(
                self.probabilities[place].position,
                f"the table of {name!r} is zero everywhere, so every state is impossible",
            )
        made = [
            Variable(self.cleaned.name(word), block.labels.names)
            for word, block in self.variables.items()
        ]
        return flat.as_model(made, is_directed=True)

    def scope(self, block: ProbabilityBlock, number: dict[str, int]) -> tuple[int, ...]:
        words = (*block.parents, block.child)
        if len(words) > LARGEST_ARITY:
            raise self.error(
                block.position,
                f"{self.cleaned.name(block.child)!r} has {len(block.parents)} parents, and at most "
                f"{LARGEST_ARITY - 1} are supported",
            )
        for word in words:
            if word not in number:
                name = self.cleaned.name(word)
                raise self.error(
                    block.position, f"no variable block for {name!r}{self.suggestion(name)}"
                )
            if words.count(word) > 1:
                raise self.error(
                    block.position, f"names {self.cleaned.name(word)!r} twice; expected it once"
                )
        return tuple([number[word] for word in words])

    def suggestion(self, name: str) -> str:
        """Look for a close name, among names few and short enough to be compared at once."""
        known = [self.cleaned.name(word) for word in islice(self.variables, 1000)]
        short = [other for other in known if len(other) <= 64]
        return did_you_mean(name, short) if len(name) <= 64 else ""

    def check_directed(self, scopes: list[tuple[int, ...]]) -> None:
        names = [self.cleaned.name(word) for word in self.variables]
        if (place := repeated_child(scopes)) is not None:
            raise self.error(
                self.probabilities[place].position,
                f"variable {names[scopes[place][-1]]!r} has a second probability block",
            )
        if (missing := missing_child(len(names), scopes)) is not None:
            position = list(self.variables.values())[missing].position
            raise self.error(
                position, f"variable {names[missing]!r} has no probability block; expected one"
            )
        if (cycle := directed_cycle(scopes)) is not None:
            place = next(i for i, scope in enumerate(scopes) if scope[-1] == cycle[0])
            raise self.error(
                self.probabilities[place].position,
                f"the network has the cycle {describe_cycle(cycle, names)}; expected none",
            )

    def error(self, position: int, message: str) -> FormatError:
        return self.cleaned.source.error(position, message)
