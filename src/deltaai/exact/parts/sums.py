"""Sums over many small models at once, whose factors are slices of the same tables.

A *part* is a few variables and the factors that touch them, for a number of rows that differ only
in where the slices of the tables begin. Elimination of a part's variables gives, with v eliminated,
F its front, and messages m of the variables whose front v comes first in,

    P_v(x_v, x_F) = Σ_factors log φ + Σ_messages m        m_v(x_F) = log Σ_{x_v} exp P_v

and log Z of each row at the end. On the way back, with p(x_F) given from above (the row's weight at
the end), every input of P_v, factor or message, is expected at its joint states as often as

    p(x_v, x_F) = exp(P_v - m_v) p(x_F)

says, for the slope of a sum is the same in all its terms. So one vector holds the tables and the
messages, an input is a number of places in it, and another vector of the same length takes the
expected counts.

What has the same shape and comes as early is one operation, whichever part and row it belongs to:
ten thousand parts of five variables take as many operations as there are shapes among them. The
program is found once, for any tables. It does not look for the best order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.exact.parts.groups import Bucket, Group, Key, buckets_of
from deltaai.exact.parts.part import Part

_Item = TypeVar("_Item")

_MOST_ENTRIES = 2**22  # of all tables that are kept at once, unless one row of a part has more
_GROUP_ENTRIES = 2**18  # of inputs that are looked up at once, unless one row of a part has more
# Bytes: of an entry of a table, with its message and what is expected of it; of a number that says
# where an input is; and of an entry of an input, of the tables that are computed just now.
_TABLE, _PLACE, _WORKING = 24, 4, 24
# A model of the time in seconds: of an operation on one shape, and of an entry of an input.
_OPERATIONS, _INPUT = 1e-4, 2e-8


@dataclass(frozen=True, eq=False)
class PartCounts:
    """What parts add up to.

    Parameters
    ----------
    log_partition : weighted sum of log Z of all rows; -inf if one is impossible.
    counts : expected counts, one for each entry of the tables.
    """

    log_partition: float
    counts: Float64[Tensor, "entry"]


class PartSums:
    """Log Z and expected counts of many parts.

    Parameters
    ----------
    parts : the small models.
    num_entries : length of the vector of tables.
    """

    def __init__(self, parts: Sequence[Part], num_entries: int) -> None:
        self.num_entries = num_entries
        self._chunks = [_Chunk(some, num_entries) for some in _portions(parts)]

    @property
    def seconds(self) -> float:
        """About how long :meth:`counted` takes on one core."""
        groups = [group for chunk in self._chunks for group in chunk.groups]
        return sum(_OPERATIONS + _INPUT * group.num_looked_up for group in groups)

    def counted(self, tables: Float64[Tensor, "entry"]) -> PartCounts:
        """Sum over all states of all parts.

        Parameters
        ----------
        tables : the logarithms of all tables.
        """
        counts, total = torch.zeros_like(tables), []
        for chunk in self._chunks:
            total.append(chunk.add(tables, counts))
        return PartCounts(math.fsum(total), counts)


def bytes_of(parts: Sequence[Part]) -> int:
    """Memory that :class:`PartSums` takes for parts, beside what they take themselves."""
    places = tables = inputs = largest = busiest = 0
    for part in parts:
        rows = len(part.weights)
        places += sum(number * (rows + entries) for entries, number in part.tables)
        tables += part.entries_of_row * rows
        inputs += part.inputs_of_row * rows
        largest = max(largest, part.entries_of_row)
        busiest = max(busiest, part.inputs_of_row)
    at_once = min(tables, max(_MOST_ENTRIES, largest))
    just_now = min(inputs, max(_GROUP_ENTRIES, busiest))
    return _PLACE * places + _TABLE * at_once + _WORKING * just_now


def _portions(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts, or some of their rows, whose tables are kept at the same time."""
    pieces = (piece for part in parts for piece in part.in_pieces(_rows_at_once(part)))
    return _gathered(pieces, lambda one: one.entries_of_row * len(one.weights), _MOST_ENTRIES)


def _rows_at_once(part: Part) -> int:
    limits = _MOST_ENTRIES // part.entries_of_row, _GROUP_ENTRIES // part.inputs_of_row
    return max(min(limits), 1)


def _gathered(
    items: Iterable[_Item], size: Callable[[_Item], int], most: int
) -> Iterator[list[_Item]]:
    """Neighbours together, as long as they are no larger than that."""
    some: list[_Item] = []
    total = 0
    for item in items:
        more = size(item)
        if some and total + more > most:
            yield some
            some, total = [], 0
        some.append(item)
        total += more
    if some:
        yield some


class _Chunk:
    """Parts that are summed over side by side."""

    def __init__(self, parts: Iterable[Part], num_entries: int) -> None:
        by_key: dict[Key, list[Bucket]] = {}
        for part in parts:
            for bucket in buckets_of(part):
                by_key.setdefault(bucket.key, []).append(bucket)
        self.num_values = num_entries
        most = num_entries + sum(
            len(one.weights) * math.prod(one.key.shape) for some in by_key.values() for one in some
        )
        kind = np.int32 if most < 2**31 else np.int64
        self.groups: list[Group] = []
        for key in sorted(by_key, key=lambda key: (key.level, key.shape, key.num_inputs)):
            for some in _gathered(by_key[key], lambda one: one.num_looked_up, _GROUP_ENTRIES):
                group = Group(key, some, self.num_values, kind)
                self.groups.append(group)
                self.num_values += group.message_size * group.num_tables

    def add(self, tables: Float64[Tensor, "entry"], counts: Float64[Tensor, "entry"]) -> float:
        """Add expected counts; the weighted sum of log Z."""
        values = tables.new_empty(self.num_values)
        values[: len(tables)] = tables
        kept, total = [], []
        for group in self.groups:
            kept.append(group.send_up(values))
            if group.key.is_root:
                total.append(group.weighted(values))
        expected = torch.zeros_like(values)
        for group in reversed(self.groups):
            group.bring_down(values, expected, kept.pop())
        counts += expected[: len(tables)]
        return math.fsum(total)
