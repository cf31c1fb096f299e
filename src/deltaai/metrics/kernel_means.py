"""Means of kernels over pairs of rows: what every discrepancy is made of, a block at a time.

With rows x_1..x_n and y_1..y_m, and a kernel k,

    biased    Σ_ij k(x_i, x_j) / n²          - 2 Σ_ij k(x_i, y_j) / (n m) + the same of y,
    unbiased  Σ_i≠j k(x_i, x_j) / (n (n - 1)) - 2 Σ_ij k(x_i, y_j) / (n m) + the same of y.

The biased one is a squared distance and never negative; for n and m independent rows of one
distribution its mean is E[k(x, x) - k(x, x')] (1/n + 1/m). The unbiased one has mean zero there.

For the linear kernel sums over pairs are products of sums of rows, Σ_i≠j <x_i, x_j> =
‖Σ x_i‖² - Σ ‖x_i‖². For others all pairs are visited, a block of rows against another, so that
memory does not grow with their number. What rows mean, and how they are made of samples, is said by
whoever gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import ConfigError

_BLOCK = 1024  # rows made or compared at once
_MOST_FOR_MEDIAN = 500  # of each sample that the median of distances is taken over


@dataclass(frozen=True, eq=False)
class Features:
    """A sample, and how rows of numbers are made of it when they are needed.

    Parameters
    ----------
    sample : one entry after the other.
    encode : makes rows of some of them.
    """

    sample: Tensor
    encode: Callable[[Tensor], Float64[Tensor, "row column"]]

    def __len__(self) -> int:
        return len(self.sample)

    def blocks(self) -> Iterator[Float64[Tensor, "row column"]]:
        """All rows, some at a time."""
        for block in torch.split(self.sample, _BLOCK):
            yield self.encode(block)

    def first(self) -> Float64[Tensor, "row column"]:
        """So many rows as are enough for a median of distances."""
        return self.encode(self.sample[:_MOST_FOR_MEDIAN])

    def sums(self) -> tuple[Float64[Tensor, "column"], float]:
        """Sum of all rows, and of their squared lengths."""
        blocks = [(block.sum(0), block.square().sum()) for block in self.blocks()]
        rows, squares = zip(*blocks, strict=True)
        return torch.stack(rows).sum(0), float(torch.stack(squares).sum())


def linear_mean(x: Features, y: Features) -> float:
    """The squared discrepancy with the linear kernel, without bias."""
    (sum_x, squares_x), (sum_y, squares_y) = x.sums(), y.sums()
    num_x, num_y = len(x), len(y)
    within_x = (float(sum_x.square().sum()) - squares_x) / (num_x * (num_x - 1))
    within_y = (float(sum_y.square().sum()) - squares_y) / (num_y * (num_y - 1))
    return within_x - 2 * float((sum_x / num_x) @ (sum_y / num_y)) + within_y


def linear_distance(x: Features, y: Features) -> float:
    """The root of the biased one with the linear kernel: ‖mean x - mean y‖."""
    return float((x.sums()[0] / len(x) - y.sums()[0] / len(y)).norm())


def rbf_mean(x: Features, y: Features, bandwidth: float | int, *, is_biased: bool) -> float:
    """The squared discrepancy with the kernel exp(-‖x - y‖² / (2 bandwidth²))."""
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise ConfigError(f"the bandwidth is {bandwidth}: it must be positive and finite")

    def within(rows: Features) -> float:
        total, number = _rbf_sum(rows, rows, bandwidth), len(rows)
        # A row has kernel 1 with itself, so the pairs (i, i) add up to the number of rows.
        return total / number**2 if is_biased else (total - number) / (number * (number - 1))

    between = _rbf_sum(x, y, bandwidth) / (len(x) * len(y))
    return within(x) - 2 * between + within(y)


def median_distance(rows: Float64[Tensor, "row column"]) -> float:
    """Median distance of two rows; their mean where that is zero, and 1 where all are equal."""
    first, second = torch.triu_indices(len(rows), len(rows), offset=1, device="cpu")
    distances = _squared_distances(rows, rows)[first, second].sqrt()
    if not len(distances):
        return 1.0
    # Where all rows are equal any bandwidth gives the discrepancy zero.
    return float(distances.median()) or float(distances.mean()) or 1.0


def _rbf_sum(x: Features, y: Features, bandwidth: float | int) -> float:
    total = 0.0
    for rows in x.blocks():
        for columns in y.blocks():
            distances = _squared_distances(rows, columns)
            total += float(distances.mul_(-0.5 / bandwidth**2).exp_().sum())
    return total


def _squared_distances(
    x: Float64[Tensor, "n column"], y: Float64[Tensor, "m column"]
) -> Float64[Tensor, "n m"]:
    """‖x‖² - 2 <x, y> + ‖y‖², which rounding must not leave below zero."""
    found = (x @ y.T).mul_(-2)
    found += x.square().sum(1)[:, None]
    found += y.square().sum(1)
    return found.clamp_(min=0)
