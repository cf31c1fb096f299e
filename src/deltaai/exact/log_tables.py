"""Log-tables over scopes: add two, sum variables out, read entries.

Variables are numbers in elimination order and every scope is ascending, so any two tables agree
on the order of their axes and combining them is broadcasting. Tables are stored flat; neighbouring
axes that behave alike are fused into one before an operation, which keeps the number of tensor
dimensions small however wide the scope is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

Scope = tuple[int, ...]
Sizes = Sequence[int]


@dataclass(frozen=True, eq=False)
class LogTable:
    """A table over an ascending scope, flat, the last variable fastest."""

    scope: Scope
    values: Float[Tensor, "entry"]


def add(first: LogTable, second: LogTable, sizes: Sizes) -> LogTable:
    """Add two log-tables over the union of their scopes."""
    union = tuple(sorted({*first.scope, *second.scope}))
    left, right = aligned_shapes((first.scope, second.scope), union, sizes)
    return LogTable(union, (first.values.view(left) + second.values.view(right)).view(-1))


def add_all(tables: Sequence[LogTable], sizes: Sizes) -> LogTable:
    """Add log-tables, small ones first so that few operations run at full size."""
    smallest, *others = sorted(tables, key=lambda table: table.values.numel())
    total = smallest
    for table in others:
        total = add(total, table, sizes)
    return total


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
    values: Float[Tensor, "entry"], scope: Scope, keep: Scope, sizes: Sizes
) -> Float[Tensor, "kept"]:
    """Sum a table (of probabilities, not logarithms) over all variables but those kept."""
    shape, kept = aligned_shapes((scope, keep), scope, sizes)
    summed = [
        axis for axis, (full, part) in enumerate(zip(shape, kept, strict=True)) if full != part
    ]
    return values.view(shape).sum(summed).view(-1) if summed else values


def flat_index(
    columns: Int[Tensor, "var batch"], scope: Scope, sizes: Sizes
) -> Int[Tensor, "batch"]:
    """Entry of a table over ``scope`` that each sample's states point at."""
    index = torch.zeros(columns.shape[1], dtype=torch.long, device=columns.device)
    for variable in scope:
        index.mul_(sizes[variable]).add_(columns[variable])
    return index


def log_sum_first(values: Float[Tensor, "state rest"]) -> Float[Tensor, "rest"]:
    """Logarithm of the sum of exponentials over the first axis, exact for -inf."""
    if values.shape[0] == 1:
        return values[0]
    if values.shape[0] == 2:
        return torch.logaddexp(values[0], values[1])  # one pass; logsumexp needs several
    top = values.amax(0)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    return (values - top).exp_().sum(0).log_().add_(top)


def log_max_first(values: Float[Tensor, "state rest"]) -> Float[Tensor, "rest"]:
    """Maximum over the first axis."""
    return values.amax(0)
