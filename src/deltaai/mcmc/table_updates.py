"""Gibbs updates from tables of conditionals, with few random bits and exact probabilities.

With cumulative probabilities C_k = p(x_v <= k | neighbours) and a uniform u, the new state is the
number of C_k that are at most u. Random numbers are the larger part of the cost, so u is drawn
lazily: first its leading byte, which decides unless it equals the leading byte of some C_k; the
rest of u, in double precision, is drawn only for these ties, one state in 256. The outcome has
the probabilities of the table to about 1e-16, not to 1/256.

States of one variable in all chains stand side by side in memory, as bytes, so packing, comparing
and copying run over whole rows. Scratch memory is kept between calls, because fresh pages cost more
than the arithmetic. This file does not choose which variables to update: see
:mod:`deltaai.mcmc.gibbs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Integer, UInt8
from torch import Tensor

from deltaai.mcmc.chains import tempered
from deltaai.mcmc.conditional_tables import Blankets

# Updates made at once: buffers of this many bytes stay in the second and third level of the cache.
PIECE_UPDATES = 2**20
# Entries of tables normalised at once, for the same reason.
PIECE_ENTRIES = 2**13


class Scratch:
    """Memory that is used again in every call, by name; its content is never relied on."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """A tensor of this shape, grown if need be. Its length is padded to whole words."""
        count = prod(shape)
        kept = self._kept.get(name)
        if kept is None or len(kept) < count or kept.dtype != dtype or kept.device != device:
            kept = torch.empty(-(-count // 8) * 8, dtype=dtype, device=device)
            self._kept[name] = kept
        return kept[:count].view(shape)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Cumulative probabilities C_k of tabulated conditionals, in two parts.

    Parameters
    ----------
    leading : leading byte of C_k; C_k = (leading + rest) / 256.
    rest : what remains, from 0 to 1; 1 only where C_k is 1.
    """

    leading: UInt8[Tensor, "cut entry"]
    rest: Float64[Tensor, "cut entry"]

    @classmethod
    def of(cls, log_scores: Float[Tensor, "entry state"], beta: float | int) -> Thresholds:
        """Normalise local log scores at an inverse temperature."""
        shape, device = (log_scores.shape[1] - 1, len(log_scores)), log_scores.device
        leading = torch.empty(shape, dtype=torch.uint8, device=device)
        rest = torch.empty(shape, dtype=torch.float64, device=device)
        # Pieces that stay in the cache, one row a state, so that operations run over long rows.
        for first in range(0, len(log_scores), PIECE_ENTRIES):
            piece = slice(first, first + PIECE_ENTRIES)
            scores = tempered(log_scores[piece].double(), beta).T.contiguous()
            scaled = _scaled_cumulative(torch.softmax(scores, 0))
            bytes_of = scaled.floor().clamp_(max=255)
            leading[:, piece] = bytes_of
            torch.sub(scaled, bytes_of, out=rest[:, piece])
        return cls(leading, rest)


def _scaled_cumulative(
    probabilities: Float64[Tensor, "state entry"],
) -> Float64[Tensor, "cut entry"]:
    """256 times the cumulative probabilities, without the last, which is 1."""
    cumulative = probabilities.cumsum(0)[:-1].clamp_(max=1)
    if bool((probabilities == 0).any()):
        # States of probability zero must never be drawn, whatever the rounding of the sum.
        is_last = probabilities.flip(0).cumsum(0).flip(0)[1:] == 0
        cumulative.masked_fill_(is_last, 1)
    return cumulative.mul_(256)


@dataclass(frozen=True, eq=False)
class Slot:
    """The j-th neighbour of the members that have one; these come first.

    Parameters
    ----------
    rows : where the neighbours stand in the columns.
    strides : their step in the index; one number if they all have the same.
    """

    rows: Int[Tensor, "some"]
    strides: int | Integer[Tensor, "some 1"]


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Variables to be updated together from their tables.

    Parameters
    ----------
    start : first row of the members in the columns; they stand one after the other.
    num_members : how many there are.
    slots : their neighbours.
    first_entries : where the table of each member begins.
    packed_dtype : integer type that holds the index of a joint state of neighbours.
    """

    start: int
    num_members: int
    slots: tuple[Slot, ...]
    first_entries: Int[Tensor, "member 1"]
    packed_dtype: torch.dtype

    @classmethod
    def build(
        cls,
        blankets: Blankets,
        members: Int[Tensor, "member"],
        row_of: Int[Tensor, "var"],
    ) -> TableBlock:
        """Lay out the tables of members that stand in falling order of their degrees."""
        numbers = members.cpu().numpy()
        num_joint = blankets.num_joint[numbers]
        dtype = torch.uint8 if num_joint.max() <= 256 else torch.int16
        degrees = np.diff(blankets.graph.offsets)[numbers]
        slots = []
        for number in range(int(degrees.max())):
            neighbours, strides = blankets.slot(numbers[degrees > number], number)
            rows = row_of[torch.from_numpy(neighbours).to(row_of.device)]
            each = torch.from_numpy(strides).to(device=row_of.device, dtype=dtype)[:, None]
            is_same = bool((strides == strides[0]).all())
            slots.append(Slot(rows, int(strides[0]) if is_same else each))
        first = torch.from_numpy(np.cumsum(num_joint) - num_joint).to(row_of.device)[:, None]
        start = int(row_of[members[0]])
        return cls(start, len(members), tuple(slots), first.to(torch.int32), dtype)

    def update(
        self,
        columns: UInt8[Tensor, "var chain"],
        thresholds: Thresholds,
        generator: torch.Generator,
        scratch: Scratch,
    ) -> None:
        """Draw the members' rows of the columns anew, in place."""
        num_chains = columns.shape[1]
        num_pieces = -(-self.num_members * num_chains // PIECE_UPDATES)
        height = -(-self.num_members // num_pieces)
        for first in range(0, self.num_members, height):
            last = min(first + height, self.num_members)
            entries = self._entries(columns, first, last, scratch).flatten()
            drawn = columns[self.start + first : self.start + last].flatten()  # a view
            _draw(drawn, entries, thresholds, generator, scratch)

    def _entries(self, columns: Tensor, first: int, last: int, scratch: Scratch) -> Tensor:
        """Index of the table entry that holds for each member and chain."""
        device, shape = columns.device, (last - first, columns.shape[1])
        packed = scratch.take("packed", shape, self.packed_dtype, device).zero_()
        for slot in self.slots:
            rows = slot.rows[first:last]
            if len(rows) == 0:
                break
            size = (len(rows), shape[1])
            states = scratch.take("states", size, torch.uint8, device)
            torch.index_select(columns, 0, rows, out=states)
            if isinstance(slot.strides, int):
                packed[: len(rows)].add_(states, alpha=slot.strides)
            else:
                steps = scratch.take("steps", size, self.packed_dtype, device)
                packed[: len(rows)].add_(torch.mul(states, slot.strides[first:last], out=steps))
        entries = scratch.take("entries", shape, torch.int32, device)
        return entries.copy_(packed).add_(self.first_entries[first:last])


def _draw(
    drawn: UInt8[Tensor, "update"],
    entries: Int[Tensor, "update"],
    thresholds: Thresholds,
    generator: torch.Generator,
    scratch: Scratch,
) -> None:
    """Fill in states drawn from the entries of a table."""
    device, shape, num_words = drawn.device, drawn.shape, -(-len(drawn) // 8)
    words = scratch.take("words", (num_words,), torch.int64, device)
    # The full range: without bounds, torch leaves the sign bit at 0.
    uniform = words.random_(-(2**63), None, generator=generator).view(torch.uint8)[: len(drawn)]
    leading = scratch.take("leading", shape, torch.uint8, device)
    is_tied = scratch.take("tied", (num_words * 8,), torch.bool, device)
    is_tied[len(drawn) :] = False
    if len(thresholds.leading) == 1:
        torch.index_select(thresholds.leading[0], 0, entries, out=leading)
        torch.gt(uniform, leading, out=drawn)
        torch.eq(uniform, leading, out=is_tied[: len(drawn)])
    else:
        drawn.zero_()
        is_tied.zero_()
        above = scratch.take("above", shape, torch.bool, device)
        for cut in thresholds.leading:
            torch.index_select(cut, 0, entries, out=leading)
            drawn.add_(torch.gt(uniform, leading, out=above))
            is_tied[: len(drawn)].logical_or_(torch.eq(uniform, leading, out=above))
    # Few are tied: look for words of eight first, then within these. (Indexing with brackets would
    # be several times slower than index_select.)
    word = is_tied.view(torch.int64).nonzero().squeeze(1)
    within = is_tied.view(-1, 8).index_select(0, word).flatten().nonzero().squeeze(1)
    ties = word.index_select(0, within // 8).mul_(8).add_(within % 8)
    entry = entries.index_select(0, ties)
    rest = torch.rand(len(ties), generator=generator, dtype=torch.float64, device=device)
    is_above = thresholds.leading.index_select(1, entry) == uniform.index_select(0, ties)
    is_above &= rest >= thresholds.rest.index_select(1, entry)
    drawn.index_add_(0, ties, is_above.sum(0, dtype=torch.uint8))
