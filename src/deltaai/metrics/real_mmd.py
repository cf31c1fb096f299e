"""Maximum mean discrepancy between rows of real numbers, such as poses.

The same squared discrepancy and the same kernels as for states (:mod:`deltaai.metrics.mmd`), of
rows as they are: scale columns first, for a kernel weighs them by their size. The linear kernel
sees the mean of each column and nothing else,

    MMD² = ‖E x - E y‖²,

and the RBF kernel sees everything. Its bandwidth is the median distance of reference rows among
themselves, so that it is the same whoever is compared with them, and however bad.

``is_biased`` counts pairs (i, i), too: the value is then a squared distance of two samples, never
negative. Without bias it is zero on average for equal distributions, and negative half of the time.
The distances, for plots and for ratios, are roots of biased ones, and so never zero: for n and m
independent rows of one distribution the square of the linear one is about tr(covariance) (1/n +
1/m). They can be compared only at equal numbers of rows.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from deltaai.errors import StateError
from deltaai.metrics.kernel_means import (
    Features,
    linear_distance,
    linear_mean,
    median_distance,
    rbf_mean,
)


def real_linear_mmd(x: Float[Tensor, "n column"], y: Float[Tensor, "m _"]) -> float:
    """Estimate the squared MMD with the linear kernel, without bias; it may be negative.

    Examples
    --------
    >>> import torch
    >>> real_linear_mmd(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0], [5.0]]))
    7.0
    """
    return linear_mean(*_checked(x, y, fewest=2))


def real_linear_mmd_distance(x: Float[Tensor, "n column"], y: Float[Tensor, "m _"]) -> float:
    """Distance ‖mean x - mean y‖: the biased root, for plots.

    >>> import torch
    >>> real_linear_mmd_distance(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0], [5.0]]))
    3.0
    """
    return linear_distance(*_checked(x, y, fewest=1))


def real_rbf_mmd(
    x: Float[Tensor, "n column"],
    y: Float[Tensor, "m _"],
    bandwidth: float | int,
    *,
    is_biased: bool = False,
) -> float:
    """Estimate the squared MMD with the RBF kernel; time is quadratic, memory is not.

    Parameters
    ----------
    x, y : two samples of at least two rows each.
    bandwidth : h of exp(-‖x - y‖² / (2 h²)); :func:`reference_bandwidth` of what all are
        compared with.
    is_biased : whether a row is compared with itself, too.
    """
    return rbf_mean(*_checked(x, y, fewest=2), bandwidth, is_biased=is_biased)


def real_rbf_mmd_distance(
    x: Float[Tensor, "n column"], y: Float[Tensor, "m _"], bandwidth: float | int
) -> float:
    """The root of the biased squared MMD with the RBF kernel, for plots."""
    squared = rbf_mean(*_checked(x, y, fewest=1), bandwidth, is_biased=True)
    return math.sqrt(max(squared, 0.0))  # rounding, where x is y


def reference_bandwidth(rows: Float[Tensor, "n column"]) -> float:
    """Median distance among reference rows; their mean where that is zero.

    At most 1000 of them are looked at, spread evenly, for neighbours are often of one clip.

    Examples
    --------
    >>> import torch
    >>> reference_bandwidth(torch.tensor([[0.0], [1.0], [3.0]]))
    2.0
    """
    (features, _) = _checked(rows, rows, fewest=1)
    step = -(-len(rows) // _MOST_FOR_BANDWIDTH)
    return median_distance(features.encode(rows[::step]))


_MOST_FOR_BANDWIDTH = 1000


def _checked(
    x: Float[Tensor, "n column"], y: Float[Tensor, "m _"], fewest: int
) -> tuple[Features, Features]:
    """Refuse samples that cannot be compared."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise StateError(
            f"samples of shapes {tuple(x.shape)} and {tuple(y.shape)} cannot be compared: give "
            "(rows, columns) with equally many columns"
        )
    if min(len(x), len(y)) < fewest:
        raise StateError(
            f"samples of {len(x)} and {len(y)} rows: each needs at least {fewest} for this "
            "discrepancy"
        )
    for sample in (x, y):
        wrong = (~sample.isfinite()).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            raise StateError(
                f"row {row} has {float(sample[row, column])} in column {column}: give finite "
                "numbers"
            )
    return Features(x, Tensor.double), Features(y, Tensor.double)
