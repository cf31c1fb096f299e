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

This file gives no p-values, and knows nothing of where the samples came from. Rows of real numbers
are compared in :mod:`deltaai.metrics.real_mmd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.conditionals import Encoding
from deltaai.errors import StateError
from deltaai.metrics.kernel_means import (
    Features,
    linear_distance,
    linear_mean,
    median_distance,
    rbf_mean,
)


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
    return linear_mean(*_checked_features(x, y, num_states, fewest=2))


def linear_mmd_distance(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m _"], num_states: Sequence[int] | None = None
) -> float:
    """Distance ‖mean x - mean y‖ of the encoded samples: the biased root, for plots.

    >>> linear_mmd_distance(torch.tensor([[0, 0]]), torch.tensor([[1, 0], [0, 0]]))
    1.0
    """
    return linear_distance(*_checked_features(x, y, num_states, fewest=1))


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
    features = _checked_features(x, y, num_states, fewest=2)
    if bandwidth is None:
        bandwidth = _bandwidth(*features)
    return rbf_mean(*features, bandwidth, is_biased=False)


def median_bandwidth(
    x: Int[Tensor, "n var"], y: Int[Tensor, "m _"], num_states: Sequence[int] | None = None
) -> float:
    """Median distance among the first states of both samples; their mean where that is zero."""
    return _bandwidth(*_checked_features(x, y, num_states, fewest=1))


def _bandwidth(x: Features, y: Features) -> float:
    return median_distance(torch.cat((x.first(), y.first())))


def _encode(encoding: Encoding, x: Int[Tensor, "n var"]) -> Float64[Tensor, "n row"]:
    return encoding.encode(x.T, torch.float64)[: encoding.num_rows].T


def _checked_features(
    x: Int[Tensor, "n var"],
    y: Int[Tensor, "m _"],
    num_states: Sequence[int] | None,
    fewest: int,
) -> tuple[Features, Features]:
    """Refuse samples that cannot be compared; say how their features are made."""
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
    encode = partial(_encode, Encoding.of(sizes))
    return Features(x, encode), Features(y, encode)
