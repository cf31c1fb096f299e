"""Maximum mean discrepancy: how far two samples of states are apart, seen through a kernel.

For a kernel k, with x, x' drawn from p and y, y' from q, the squared discrepancy is

    MMD²(p, q) = E k(x, x') - 2 E k(x, y) + E k(y, y').

Its unbiased estimate leaves the pairs (i, i) out of the first and the last term; it is zero on
average for p = q, so it is **negative about half of the time** there. That is a result, not a
defect: average it over seeds as it is. For logarithmic plots there is
:func:`linear_mmd_distance`, which is never negative and in return never zero: for n and m
independent states of one distribution its square is about tr(covariance) (1/n + 1/m).

States are encoded as -1 or +1 for two states and one-hot for any other number, so every encoded
state of V variables has squared length V. With that, and the linear kernel <x, y>, sums over pairs
are products of sums, and no n x n matrix is needed:

    1 / (n (n - 1)) Σ_{i≠j} <x_i, x_j> = (‖Σ x_i‖² - n V) / (n (n - 1)).

The linear kernel sees only the means of single variables; two distributions with equal marginals
are at distance zero. The RBF kernel exp(-‖x - y‖² / (2 h²)) sees everything, at quadratic cost.

This file gives no p-values, and knows nothing of where the samples came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.conditionals import Encoding
from deltaai.errors import ConfigError, StateError

_BLOCK = 1024  # states encoded or compared at once
_MOST_FOR_MEDIAN = 500  # states of each sample that the median of distances is taken over


def linear_mmd(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m _"], num_states: Sequence[int] | None = None
) -> float:
    """Estimate the squared MMD with the linear kernel, without bias; it may be negative.

    Parameters
    ----------
    x, y : two samples of at least two states each.
    num_states : states of each variable (``model.num_states.tolist()``); all have two by default.

    Examples
    --------
    >>> x, y = torch.tensor([[0, 0], [0, 1]]), torch.tensor([[1, 1], [1, 0]])
    >>> linear_mmd(x, y)
    2.0
    """
    encoding = _checked_encoding(x, y, num_states, fewest=2)
    sum_x, sum_y = _sum(x, encoding), _sum(y, encoding)
    num_x, num_y, num_variables = len(x), len(y), x.shape[1]
    within_x = (sum_x.square().sum() - num_x * num_variables) / (num_x * (num_x - 1))
    within_y = (sum_y.square().sum() - num_y * num_variables) / (num_y * (num_y - 1))
    between = (sum_x / num_x) @ (sum_y / num_y)
    return float(within_x - 2 * between + within_y)


def linear_mmd_distance(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m _"], num_states: Sequence[int] | None = None
) -> float:
    """Distance ‖mean x - mean y‖ of the encoded samples: the biased root, for plots.

    >>> linear_mmd_distance(torch.tensor([[0, 0]]), torch.tensor([[1, 0], [0, 0]]))
    1.0
    """
    encoding = _checked_encoding(x, y, num_states, fewest=1)
    return float((_sum(x, encoding) / len(x) - _sum(y, encoding) / len(y)).norm())


def rbf_mmd(
    x: Int[Tensor, "n var"],
    y: Int[Tensor, "m _"],
    bandwidth: float | int | None = None,
    num_states: Sequence[int] | None = None,
) -> float:
    """Estimate the squared MMD with the RBF kernel, without bias; it may be negative.

    Time is quadratic in the number of states; memory is not.

    Parameters
    ----------
    x, y : two samples of at least two states each.
    bandwidth : h of the kernel; :func:`median_bandwidth` by default. Give one where several
        values are to be compared, since the default depends on the samples.
    num_states : states of each variable; all have two by default.
    """
    encoding = _checked_encoding(x, y, num_states, fewest=2)
    if bandwidth is None:
        bandwidth = median_bandwidth(x, y, num_states)
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise ConfigError(f"the bandwidth is {bandwidth}: it must be positive and finite")
    num_x, num_y = len(x), len(y)
    # A state has kernel 1 with itself, so the pairs (i, i) add up to the number of states.
    within_x = (_kernel_sum(x, x, bandwidth, encoding) - num_x) / (num_x * (num_x - 1))
    within_y = (_kernel_sum(y, y, bandwidth, encoding) - num_y) / (num_y * (num_y - 1))
    between = _kernel_sum(x, y, bandwidth, encoding) / (num_x * num_y)
    return within_x - 2 * between + within_y


def median_bandwidth(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m _"], num_states: Sequence[int] | None = None
) -> float:
    """Median distance among the first states of both samples; their mean where that is zero."""
    encoding = _checked_encoding(x, y, num_states, fewest=1)
    pooled = _encode(torch.cat((x[:_MOST_FOR_MEDIAN], y[:_MOST_FOR_MEDIAN])), encoding)
    row, column = torch.triu_indices(len(pooled), len(pooled), offset=1, device="cpu")
    distances = _squared_distances(pooled, pooled, x.shape[1])[row, column].sqrt()
    # Where all states are equal any bandwidth gives the discrepancy zero.
    return float(distances.median()) or float(distances.mean()) or 1.0


def _kernel_sum(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m var"], bandwidth: float | int, encoding: Encoding
) -> float:
    total = 0.0
    for rows in _encoded_blocks(x, encoding):
        for columns in _encoded_blocks(y, encoding):
            distances = _squared_distances(rows, columns, x.shape[1])
            total += float(distances.mul_(-0.5 / bandwidth**2).exp_().sum())
    return total


def _squared_distances(
    x: Float64[Tensor, "n row"], y: Float64[Tensor, "m row"], num_variables: int
) -> Float64[Tensor, "n m"]:
    """‖x - y‖² = 2 V - 2 <x, y>; whole numbers, so there is no rounding below zero."""
    return (x @ y.T).mul_(-2).add_(2 * num_variables)


def _sum(x: Int[Tensor, "n var"], encoding: Encoding) -> Float64[Tensor, "row"]:
    total = torch.zeros(encoding.num_rows, dtype=torch.float64, device=x.device)
    for block in _encoded_blocks(x, encoding):
        total += block.sum(0)
    return total


def _encoded_blocks(
    x: Int[Tensor, "n var"], encoding: Encoding
) -> Iterator[Float64[Tensor, "block row"]]:
    for block in torch.split(x, _BLOCK):
        yield _encode(block, encoding)


def _encode(x: Int[Tensor, "n var"], encoding: Encoding) -> Float64[Tensor, "n row"]:
    return encoding.encode(x.T, torch.float64)[: encoding.num_rows].T


def _checked_encoding(
    x: Int[Tensor, "n var"],
    y: Int[Tensor, "m _"],
    num_states: Sequence[int] | None,
    fewest: int,
) -> Encoding:
    """Refuse samples that cannot be compared; lay out their features."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise StateError(
            f"samples of shapes {tuple(x.shape)} and {tuple(y.shape)} cannot be compared: give "
            "(states, variables) with equally many variables"
        )
    if min(len(x), len(y)) < fewest:
        raise StateError(
            f"samples of {len(x)} and {len(y)} states: each needs at least {fewest} for this "
            "discrepancy"
        )
    sizes = [2] * x.shape[1] if num_states is None else list(num_states)
    if len(sizes) != x.shape[1]:
        raise StateError(f"num_states has {len(sizes)} entries for {x.shape[1]} variables")
    limits = torch.tensor(sizes, device=x.device, dtype=torch.long)
    for sample in (x, y):
        wrong = ((sample < 0) | (sample >= limits)).nonzero()
        if len(wrong):
            row, variable = wrong[0].tolist()
            raise StateError(
                f"state {row} has value {int(sample[row, variable])} for variable {variable}, "
                f"which has {sizes[variable]} states; pass num_states=model.num_states.tolist()"
            )
    return Encoding.of(sizes)
