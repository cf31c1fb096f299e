"""Log-tables over scopes: make them of factors, add several, sum variables out, read entries.

Variables are numbers in elimination order and every scope is ascending, so any two tables agree
on the order of their axes and combining them is broadcasting. Tables are stored flat; neighbouring
axes that behave alike are fused into one before an operation, which keeps the number of tensor
dimensions small however wide the scope is. Results go to memory that the caller provides: exact
inference uses little else than a few large tables, and allocating them anew each time costs more
than computing them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models import FactorGraph, checked_log_tables
from deltaai.watch import look

Scope = tuple[int, ...]
Sizes = Sequence[int]
Buffers = tuple[Tensor, Tensor]  # two flat scratch tables, used in turn


@dataclass(frozen=True, eq=False)
class LogTable:
    """A table over an ascending scope, flat, the last variable fastest."""

    scope: Scope
    values: Float[Tensor, "entry"]


def sorted_tables(model: FactorGraph, order: Sequence[int]) -> tuple[list[LogTable], float]:
    """Write all factors as tables over places in an order, and the log of those over nothing."""
    rank = torch.empty(len(order), dtype=torch.long, device="cpu")
    rank[list(order)] = torch.arange(len(order), device="cpu")
    rank = rank.to(model.device)
    found, constant = [], 0.0
    with torch.no_grad():
        for group in model.groups:
            tables = checked_log_tables(model, group)
            if group.arity == 0:
                constant += float(tables.sum())
                continue
            ranks, places = rank[group.scopes].sort(dim=1)
            for scope, axes, table in zip(ranks.tolist(), places.tolist(), tables, strict=True):
                look()
                found.append(LogTable(tuple(scope), table.permute(axes).reshape(-1)))
    return found, constant


def add_all(tables: Sequence[LogTable], sizes: Sizes, buffers: Buffers) -> Float[Tensor, "entry"]:
    """Add log-tables over the union of their scopes, into one of two buffers.

    Small ones first, so that few operations run at full size. A single table is returned as it is.
    """
    smallest, *others = sorted(tables, key=lambda table: table.values.numel())
    scope, values = smallest.scope, smallest.values
    for turn, table in enumerate(others):
        union = tuple(sorted({*scope, *table.scope}))
        left, right, full = aligned_shapes((scope, table.scope, union), union, sizes)
        total = buffers[turn % 2][: math.prod(full)].view(full)
        torch.add(values.view(left), table.values.view(right), out=total)
        scope, values = union, total.view(-1)
    return values


def aligned_shapes(scopes: Sequence[Scope], union: Scope, sizes: Sizes) -> list[list[int]]:
    """Shapes under which tables over parts of a scope broadcast against each other.

    Each run of neighbouring variables with the same memberships becomes one axis.

    >>> aligned_shapes([(0, 1, 3), (3,)], (0, 1, 2, 3), sizes=[2, 3, 4, 5])
    [[6, 1, 5], [1, 1, 5]]
    """
    members = [frozenset(scope) for scope in scopes]
    shapes: list[list[int]] = [[] for _ in scopes]
    for present, run in groupby(union, key=lambda v: [v in member for member in members]):
        size = math.prod(sizes[variable] for variable in run)
        for shape, is_present in zip(shapes, present, strict=True):
            shape.append(size if is_present else 1)
    return shapes


def marginalise(
    values: Float[Tensor, "entry"],
    scope: Scope,
    keep: Scope,
    sizes: Sizes,
    out: Float[Tensor, "kept"],
) -> None:
    """Sum a table (of probabilities, not logarithms) over all variables but those kept."""
    shape, kept = aligned_shapes((scope, keep), scope, sizes)
    summed = [axis for axis, size in enumerate(shape) if size != kept[axis]]
    if summed:
        torch.sum(values.view(shape), dim=summed, keepdim=True, out=out.view(kept))
    else:
        out.copy_(values)


def log_marginalise(
    values: Float[Tensor, "entry"],
    scope: Scope,
    keep: Scope,
    sizes: Sizes,
    scratch: Float[Tensor, "entry"],
    out: Float[Tensor, "kept"],
) -> None:
    """Logarithm of the sum of exponentials over all variables but those kept, exact for -inf."""
    shape, kept = aligned_shapes((scope, keep), scope, sizes)
    summed = [axis for axis, size in enumerate(shape) if size != kept[axis]]
    if not summed:
        out.copy_(values)
        return
    table, work, total = values.view(shape), scratch.view(shape), out.view(kept)
    top = table.amax(summed, keepdim=True)
    top.masked_fill_(top == -math.inf, 0.0)
    torch.sub(table, top, out=work)
    torch.sum(work.exp_(), dim=summed, keepdim=True, out=total)
    total.log_().add_(top)


def flat_index(
    columns: Int[Tensor, "var batch"], scope: Scope, sizes: Sizes
) -> Int[Tensor, "batch"]:
    """Entry of a table over ``scope`` that each sample's states point at."""
    index = torch.zeros(columns.shape[1], dtype=torch.long, device=columns.device)
    for variable in scope:
        index.mul_(sizes[variable]).add_(columns[variable])
    return index


def log_sum_first(
    values: Float[Tensor, "state rest"],
    scratch: Float[Tensor, "state rest"],
    out: Float[Tensor, "rest"],
) -> None:
    """Logarithm of the sum of exponentials over the first axis, exact for -inf."""
    if values.shape[0] == 1:
        out.copy_(values[0])
    elif values.shape[0] == 2:
        torch.logaddexp(values[0], values[1], out=out)  # one pass; logsumexp needs several
    else:
        top = values.amax(0)
        top.masked_fill_(top == -math.inf, 0.0)
        torch.sub(values, top, out=scratch)
        torch.sum(scratch.exp_(), dim=0, out=out)
        out.log_().add_(top)


def log_max_first(
    values: Float[Tensor, "state rest"],
    scratch: Float[Tensor, "state rest"],
    out: Float[Tensor, "rest"],
) -> None:
    """Maximum over the first axis."""
    torch.amax(values, dim=0, out=out)
