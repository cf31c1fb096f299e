"""Messages between variables and factors of any shape: the general path of belief propagation.

A factor tells each of its variables what it makes of the others (sum-product, in log space):

    m_{f→v}(x_v) = log Σ_{x_u, u ≠ v} exp( table_f(x_{S_f}) + Σ_{u ≠ v} incoming_{u→f}(x_u) )

The variables u of the scope are summed out one at a time, all factors of a block together, and a
message is scaled so that its largest entry is one. Where a block's tables are finite and not
extreme, the sums are of products of numbers in (0, 1] instead: no sum is then below the smallest
table entry and what underflows is smaller still by far, so nothing is lost, and with many states
it is several times as fast. Zeros stay zeros: if a message is -inf somewhere, the reason for it
does not go away.

This file does not decide when to stop: see :mod:`deltaai.messages.loopy.propagation`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.messages.loopy.potentials import Block, Potentials, along

# Largest log-ratio of two entries of a table that is summed without logarithms.
LARGEST_LOG_RATIO = 300.0


class TableMessages:
    """Messages of all factors, updated together.

    Parameters
    ----------
    potentials : the model.
    """

    def __init__(self, potentials: Potentials) -> None:
        self.potentials = potentials
        self.messages = torch.zeros_like(potentials.rows, dtype=torch.float64)
        self._positive = [_positive_tables(block) for block in potentials.blocks]

    def step(self, damping: float | int) -> float:
        """Update every message once; return the largest change before damping."""
        _, incoming = self.potentials.gather(self.messages)
        change = torch.empty_like(self.messages)
        for block, positive in zip(self.potentials.blocks, self._positive, strict=True):
            heard = block.places(incoming)
            if positive is not None:
                heard = [_scaled(values).exp_() for values in heard]
            for place, out in enumerate(block.places(change)):
                if positive is not None:
                    sent = _sum_products(positive, heard, place).log_()
                else:
                    sent = _log_sum_products(block.tables, heard, place)
                out.copy_(_scaled(sent))
        change -= self.messages
        if self.potentials.has_zeros:
            change.masked_fill_(self.messages == -math.inf, 0.0)  # zero before, and so still
        self.messages.add_(change, alpha=1 - damping)
        return float(change.abs_().max())

    def log_messages(self) -> Float[Tensor, "entry"]:
        """All messages in one row."""
        return self.messages


def _positive_tables(block: Block) -> Float[Tensor, "*states factor"] | None:
    """The factors themselves, scaled to a largest entry of one; None where that is not safe."""
    flat = block.tables.flatten(0, -2)
    top = flat.amax(0)
    if bool((top - flat.amin(0) <= LARGEST_LOG_RATIO).all()):
        return (block.tables - top).exp_()
    return None


def _scaled(log_values: Float[Tensor, "state factor"]) -> Float[Tensor, "state factor"]:
    """Subtract the largest entry, where there is one."""
    top = log_values.amax(0)
    return log_values - top.masked_fill_(top == -math.inf, 0.0)


def _sum_products(
    tables: Float[Tensor, "*states factor"], heard: list[Tensor], place: int
) -> Float[Tensor, "state factor"]:
    for axis in reversed(range(len(heard))):
        if axis != place:
            tables = (tables * along(heard[axis], axis, tables.ndim)).sum(axis)
    return tables


def _log_sum_products(
    tables: Float[Tensor, "*states factor"], heard: list[Tensor], place: int
) -> Float[Tensor, "state factor"]:
    for axis in reversed(range(len(heard))):
        if axis != place:
            tables = tables + along(heard[axis], axis, tables.ndim)
            if tables.shape[axis] == 2:
                tables = torch.logaddexp(tables.select(axis, 0), tables.select(axis, 1))
            else:
                tables = torch.logsumexp(tables, axis)
    return tables
