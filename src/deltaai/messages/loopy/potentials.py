"""A model as message passing reads it: a constant, fields, and tables that tie variables.

    log p~(x) = constant + Σ_v field_v(x_v) + Σ_f table_f(x_{S_f}),    |S_f| >= 2

A factor over one variable sends the same message for ever, so it is a field from the start. All
(variable, state) pairs stand in one row, as in ``model.state_offsets``; all messages from factors
to variables stand in another one. In both, the tables of a block and the messages of one place of
its scope, the factor's axis is last: sums over states are then a few long vector operations. From
the messages m follow, with -inf for zero,

    total_v(x_v)       = field_v(x_v) + Σ_{f of v} m_{f→v}(x_v)
    incoming_{v→f}     = total_v - m_{f→v}

This file sends no messages: see :mod:`deltaai.messages.loopy.tables` and
:mod:`deltaai.messages.loopy.log_odds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError, ModelError
from deltaai.models import FactorGraph, FactorGroup, checked_log_tables, describe_member

# Entries of one factor's table: above this an iteration is no longer cheap.
LARGEST_TABLE = 2**20


@dataclass(frozen=True, eq=False)
class Block:
    """Factors of one shape, over two variables or more.

    Parameters
    ----------
    ids : place of each factor in the model's list of factors.
    scopes : variables of each factor, those with fewer states first.
    tables : the logarithm of each factor, the factor's axis last.
    start : where the block's messages begin in the row of all messages.
    """

    ids: Int[Tensor, "factor"]
    scopes: Int[Tensor, "factor arity"]
    tables: Float[Tensor, "*states factor"]
    start: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope."""
        return tuple(self.tables.shape[:-1])

    @property
    def num_entries(self) -> int:
        """Length of the block's part of the row of all messages."""
        return sum(self.sizes) * len(self.ids)

    def places(self, row: Float[Tensor, "entry"]) -> list[Float[Tensor, "_ factor"]]:
        """View the block's part of a row of messages, one matrix a place of the scope."""
        part = row[self.start : self.start + self.num_entries]
        lengths = [size * len(self.ids) for size in self.sizes]
        pieces = torch.split(part, lengths)
        return [piece.view(size, -1) for piece, size in zip(pieces, self.sizes, strict=True)]

    def joint(self, incoming: Float[Tensor, "entry"]) -> Float[Tensor, "*states factor"]:
        """Logarithm of each factor's belief, up to a constant a factor."""
        total = self.tables
        for place, values in enumerate(self.places(incoming)):
            total = total + along(values, place, total.ndim)
        return total


def along(
    values: Float[Tensor, "state factor"], axis: int, num_axes: int
) -> Float[Tensor, "*states factor"]:
    """View a function of one variable a factor so that it broadcasts along an axis of a table."""
    shape = [1] * num_axes
    shape[axis], shape[-1] = values.shape
    return values.view(shape)


@dataclass(frozen=True, eq=False)
class Potentials:
    """A model taken apart for message passing.

    Parameters
    ----------
    constant : sum of the log-factors over no variable.
    fields : sum of the log-factors over one variable, for all (variable, state) pairs.
    blocks : the other factors.
    rows : the (variable, state) pair of each entry of the row of all messages.
    by_size : variables with the same number of states, and where their pairs stand.
    has_zeros : whether any field or table is -inf somewhere.
    """

    constant: float
    fields: Float[Tensor, "pair"]
    blocks: tuple[Block, ...]
    rows: Int[Tensor, "entry"]
    by_size: tuple[tuple[Int[Tensor, "_"], Int[Tensor, "_ _"]], ...]
    has_zeros: bool

    @classmethod
    def build(cls, model: FactorGraph, largest_table: int = LARGEST_TABLE) -> Potentials:
        """Take a model apart; factors that are no tables yet are evaluated at all their states."""
        constant, start = 0.0, 0
        offsets = model.state_offsets[:-1]
        fields = torch.zeros(int(model.state_offsets[-1]), dtype=torch.float64, device=model.device)
        rows = [torch.zeros(0, dtype=torch.long, device=model.device)]
        blocks: list[Block] = []
        for ids, scopes, tables in _merged(model, largest_table):
            sizes = tables.shape[:-1]
            places = [
                (offsets[scopes[:, place]] + torch.arange(size, device=model.device)[:, None])
                for place, size in enumerate(sizes)
            ]
            if len(sizes) == 0:
                constant += float(tables.sum())
            elif len(sizes) == 1:
                fields.index_add_(0, places[0].flatten(), tables.flatten())
            else:
                blocks.append(Block(ids, scopes, tables, start))
                start += blocks[-1].num_entries
                rows += [place.flatten() for place in places]
        by_size = []
        for count in torch.unique(model.num_states).tolist():
            variables = (model.num_states == count).nonzero().squeeze(1)
            states = torch.arange(count, device=model.device)
            by_size.append((variables, offsets[variables] + states[:, None]))
        everything = (fields, *(block.tables for block in blocks))
        has_zeros = any(bool((values == -math.inf).any()) for values in everything)
        if constant == -math.inf:
            raise ImpossibleEvidenceError("a factor whose variables are all observed is zero there")
        return cls(constant, fields, tuple(blocks), torch.cat(rows), tuple(by_size), has_zeros)

    def at(self, beta: float | int) -> Potentials:
        """Return the model with all its log-factors multiplied by a positive number."""
        blocks = tuple(replace(block, tables=beta * block.tables) for block in self.blocks)
        constant, fields = beta * self.constant, beta * self.fields
        return replace(self, constant=constant, fields=fields, blocks=blocks)

    def gather(
        self, messages: Float[Tensor, "entry"]
    ) -> tuple[Float[Tensor, "pair"], Float[Tensor, "entry"]]:
        """Totals at the variables, and what each factor hears from each of its variables."""
        if not self.has_zeros:
            totals = self.fields.index_add(0, self.rows, messages)
            return totals, totals.index_select(0, self.rows).sub_(messages)
        # A message of -inf cannot be subtracted again: zeros are counted, the rest is added.
        is_zero = messages == -math.inf
        finite = messages.masked_fill(is_zero, 0.0)
        field_is_zero = self.fields == -math.inf
        totals = self.fields.masked_fill(field_is_zero, 0.0).index_add_(0, self.rows, finite)
        zeros = field_is_zero.long().index_add_(0, self.rows, is_zero.long())
        incoming = totals.index_select(0, self.rows).sub_(finite)
        incoming.masked_fill_(zeros.index_select(0, self.rows) > is_zero, -math.inf)
        return totals.masked_fill_(zeros > 0, -math.inf), incoming


def _merged(model: FactorGraph, largest: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Ids, scopes and tables of all factors, those with the same sizes in any order together.

    The places of a scope are sorted by size: with many shapes it is their number that costs time.
    """
    parts: dict[tuple[int, ...], list[tuple[Tensor, Tensor, Tensor]]] = {}
    for group in model.groups:
        order = sorted(range(group.arity), key=lambda place: group.sizes[place])
        tables = _checked_tables(model, group, largest).permute(*order, group.arity)
        sizes = tuple(tables.shape[:-1])
        parts.setdefault(sizes, []).append((group.ids, group.scopes[:, order], tables))
    return [
        (
            torch.cat([ids for ids, _, _ in same]),
            torch.cat([scopes for _, scopes, _ in same]),
            torch.cat([tables for _, _, tables in same], -1).contiguous(),
        )
        for same in parts.values()
    ]


def _checked_tables(
    model: FactorGraph, group: FactorGroup, largest: int
) -> Float[Tensor, "*states factor"]:
    """Tables of a group in double precision, the factor's axis last."""
    if group.num_factors and group.table_size > largest:
        raise ModelError(
            f"{describe_member(model, group, 0)} has a table of {group.table_size} entries and "
            f"belief propagation takes at most {largest}: observe some of its variables, write it "
            "as a product of smaller factors, or raise largest_table"
        )
    tables = checked_log_tables(model, group)
    return tables.movedim(0, -1)
