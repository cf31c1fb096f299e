"""How near an answer is to a solution, as the UAI competitions measure it.

    PR    | log10 Z* - log10 Z |
    MAR   mean over unobserved variables of the Hellinger distance,
          sqrt(½ Σ_k (sqrt p*_k - sqrt p_k)²)

An error becomes a score by that of a trivial answer:  100 max(0, 1 - error / error of the trivial
one), so 100 is the truth, and 0 is no better than knowing nothing. No answer has 0. The trivial
answer here calls all marginals uniform, and factors independent under uniform states:

    log Z  ≈  Σ_v log K_v + Σ_k log mean(φ_k)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from deltaai.models import FactorGraph

Row = Float64[np.ndarray, "state"]
_SAME = 1e-6  # errors of rounding, where a trivial answer is right


def trivial_log_partition(model: FactorGraph) -> float:
    """Log Z if factors were independent under uniform states.

    >>> from deltaai.models import zoo
    >>> round(trivial_log_partition(zoo.sprinkler()), 6)  # of conditional tables: 1 / K each
    0.0
    """
    total = float(model.num_states.double().log().sum())
    for group in model.groups:
        tables = group.log_tables().detach().double().reshape(group.num_factors, -1)
        total += float((tables.logsumexp(1) - math.log(tables.shape[1])).sum())
    return total


def uniform_marginals(model: FactorGraph) -> list[Row]:
    """Marginals of one who knows nothing."""
    return [np.full(size, 1 / size) for size in model.num_states.tolist()]


def hellinger(found: Sequence[Row], truth: Sequence[Row]) -> float:
    """Mean Hellinger distance of marginals; 0 if there are none.

    >>> hellinger([np.array([0.5, 0.5])], [np.array([0.5, 0.5])])
    0.0
    >>> hellinger([np.array([1.0, 0.0])], [np.array([0.0, 1.0])])
    1.0
    """
    distances = [
        math.sqrt(float(np.square(np.sqrt(one) - np.sqrt(other)).sum()) / 2)
        for one, other in zip(found, truth, strict=True)
    ]
    return float(np.mean(distances)) if distances else 0.0


def largest_difference(found: Sequence[Row], truth: Sequence[Row]) -> float:
    """Largest difference of any two probabilities."""
    return max(
        (float(np.abs(one - other).max()) for one, other in zip(found, truth, strict=True)),
        default=0.0,
    )


def score_of(error: float | None, trivial: float) -> float:
    """From an error to points; no answer has none.

    >>> score_of(0.0, 2.0), score_of(0.5, 2.0), score_of(3.0, 2.0), score_of(None, 2.0)
    (100.0, 75.0, 0.0, 0.0)
    >>> score_of(0.0, 0.0), score_of(0.1, 0.0)
    (100.0, 0.0)
    """
    if error is None or not math.isfinite(error):
        return 0.0
    if trivial <= _SAME:
        return 100.0 if error <= _SAME else 0.0
    return 100.0 * max(0.0, 1.0 - error / trivial)


def log10_error(found: float, truth: float) -> float:
    """Distance of two values of log10 Z; none if both say that no state is possible."""
    return 0.0 if found == truth else abs(found - truth)
