"""Tables of the same shape, whichever part and row they belong to: one operation up, one down.

A *bucket* is the table of one variable of a part, over it and its front; all rows of the part have
it. Axes are the variable's, then those of its front by size, so that more tables have the same
shape. An *input* of a table is a factor or a message: a number of places in the vector of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.exact.parts.part import Part, PartFactor


@dataclass(frozen=True)
class Key:
    """What tables of one operation have in common: when they are due, their shape, their inputs."""

    level: int
    is_root: bool
    shape: tuple[int, ...]
    num_inputs: int


@dataclass(eq=False)
class Bucket:
    """A table of a part, which all rows of the part have."""

    key: Key
    axes: tuple[int, ...]
    factors: list[PartFactor]
    messages: list[Bucket]
    weights: Float64[np.ndarray, "row"]
    first: Int[np.ndarray, "row"] | None = None  # where the messages begin

    @property
    def num_looked_up(self) -> int:
        """Entries of all inputs, for all rows."""
        return max(self.key.num_inputs, 1) * math.prod(self.key.shape) * len(self.weights)

    def strides(self) -> list[list[int]]:
        """Of each input, along each axis."""
        found = [
            [dict(zip(one.scope, one.strides, strict=True)).get(v, 0) for v in self.axes]
            for one in self.factors
        ]
        return found + [one.message_strides(self.axes) for one in self.messages]

    def message_strides(self, axes: Sequence[int]) -> list[int]:
        """Of its message, along the axes of the bucket that takes it."""
        found, stride = {}, 1
        for axis, size in zip(self.axes[:0:-1], self.key.shape[:0:-1], strict=True):
            found[axis] = stride
            stride *= size
        return [found.get(v, 0) for v in axes]

    def offsets(self) -> Int[np.ndarray, "input row"]:
        """Where each input begins for each row."""
        messages = [one.first for one in self.messages if one.first is not None]
        return np.stack([one.offsets for one in self.factors] + messages)


def buckets_of(part: Part) -> list[Bucket]:
    """The tables of a part, in the order in which they can be computed."""
    order, fronts = part.elimination.order, part.elimination.fronts
    rank = {v: place for place, v in enumerate(order)}
    factors: list[list[PartFactor]] = [[] for _ in order]
    for factor in part.factors:
        factors[min(factor.scope, key=rank.__getitem__)].append(factor)
    messages: list[list[Bucket]] = [[] for _ in order]
    found = []
    for v in order:
        axes = (v, *sorted(fronts[v], key=lambda u: (part.sizes[u], rank[u])))
        level = 1 + max((one.key.level for one in messages[v]), default=-1)
        key = Key(
            level,
            not fronts[v],
            tuple(part.sizes[u] for u in axes),
            len(factors[v]) + len(messages[v]),
        )
        bucket = Bucket(key, axes, factors[v], messages[v], part.weights)
        found.append(bucket)
        if fronts[v]:
            messages[min(fronts[v], key=rank.__getitem__)].append(bucket)
    return found


class Group:
    """Tables of one shape that are computed in one operation, each for a row of a part.

    Parameters
    ----------
    key : what they have in common.
    buckets : where they come from.
    first : where their messages begin in the vector of values.
    kind : the type of numbers that places are written as.
    """

    def __init__(
        self, key: Key, buckets: Sequence[Bucket], first: int, kind: type[np.integer[Any]]
    ) -> None:
        self.key, self.first = key, first
        rows = [len(one.weights) for one in buckets]
        self.num_tables = sum(rows)
        self.message_size = math.prod(key.shape[1:])
        self.num_looked_up = sum(one.num_looked_up for one in buckets)
        place = first
        for bucket, number in zip(buckets, rows, strict=True):
            bucket.first = place + self.message_size * np.arange(number)
            place += self.message_size * number
        self.weights = torch.from_numpy(np.concatenate([one.weights for one in buckets]))
        if not key.num_inputs:  # nothing touches it: any state, any time
            return
        offsets = np.concatenate([one.offsets() for one in buckets], axis=1)
        strides = np.array([one.strides() for one in buckets])
        within = strides.transpose(1, 0, 2) @ np.indices(key.shape).reshape(len(key.shape), -1)
        self._offsets = torch.from_numpy(offsets.astype(kind))[:, :, None]
        self._within = torch.from_numpy(within.astype(kind))
        is_shared = self.num_tables > len(buckets)
        owner = torch.from_numpy(np.repeat(np.arange(len(buckets)), rows))
        self._owner = owner if is_shared else None

    def places(self) -> Int[Tensor, "input table_entry"]:
        """Where each entry of each input stands in the vector of values."""
        within = self._within if self._owner is None else self._within[:, self._owner]
        return (self._offsets + within).flatten(1)

    def message(self, values: Tensor) -> Float64[Tensor, "table front"]:
        """Its messages, as they stand in a vector."""
        end = self.first + self.num_tables * self.message_size
        return values[self.first : end].view(self.num_tables, self.message_size)

    def weighted(self, values: Tensor) -> float:
        """Its messages, if they are log Z, summed by the weights of the rows."""
        return float(self.weights @ self.message(values)[:, 0])

    def send_up(self, values: Tensor) -> Float64[Tensor, "table state front"]:
        """Compute the tables from what stands in the vector, and write their messages there."""
        shape = (self.num_tables, self.key.shape[0], self.message_size)
        if self.key.num_inputs:
            places = self.places()
            inputs = values.index_select(0, places.flatten()).view(len(places), -1)
            product = inputs.sum(0).view(shape)
        else:
            product = values.new_zeros(shape)
        torch.logsumexp(product, 1, out=self.message(values))
        return product

    def bring_down(
        self,
        values: Tensor,
        expected: Tensor,
        product: Float64[Tensor, "table state front"],
    ) -> None:
        """Add how often each entry of each input is expected."""
        message = self.message(values)
        is_possible = message > -math.inf
        above = self.weights[:, None] if self.key.is_root else self.message(expected)
        product.sub_(message.where(is_possible, 0.0)[:, None]).exp_()
        product.mul_((above * is_possible)[:, None])
        if self.key.num_inputs:
            places = self.places()
            expected.index_add_(
                0, places.flatten(), product.view(1, -1).expand(len(places), -1).flatten()
            )
