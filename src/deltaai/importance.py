"""What importance weights say: log Z, the ELBO, and how far either can be trusted.

For states x ~ q with weights w = p~(x) / q(x), the mean of w is an unbiased estimate of Z and the
mean of log w a lower bound on log Z. The same weights tell how good they are: through their
variance (effective sample size) and through the tail that they seem to have (Pareto k-hat, see
Vehtari, Simpson, Gelman, Yao and Gabry, *Pareto smoothed importance sampling*).

What weights cannot tell: whether q misses a region of p altogether. A state that q never draws
has no weight, so a q that collapsed on one state has perfect weights and a wrong log Z.

This file takes weights as they are. It draws no states, evaluates no model, and smooths nothing.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import WeightError

LogWeights = Tensor | npt.NDArray[np.floating[Any]]

_SMALLEST_TAIL = 5  # weights that a tail must have for a shape to be fitted to it


@dataclass(frozen=True)
class ImportanceEstimate:
    """An estimate of log Z from importance weights, with what is known about its quality.

    ``stderr`` rests on the spread of the weights that were drawn. With a heavy tail the largest
    are not among them, ``stderr`` is too small and ``log_partition`` most likely too low. Its
    square is about 1 / ess - 1 / num_samples, so it never exceeds one nat, however wrong the
    estimate. It means what it says where the true tail index is below 0.5, for only there do
    weights have a variance; from 0.5 to 0.7 an interval of nominally 95 % holds the truth about
    85 % of the time, and above it fails. ``khat`` is itself an estimate and on the low side for
    few samples, so a value below 0.5 together with a good ``ess`` is the case to believe.

    Parameters
    ----------
    log_partition : log of the mean weight.
    stderr : its standard error in nats (delta method); infinite for a single sample.
    elbo : mean of the log weights; ``-inf`` if a weight is zero.
    elbo_stderr : its standard error; infinite if a weight is zero, or for a single sample.
    ess : effective sample size (Σw)² / Σw², between 1 and ``num_samples``.
    ess_fraction : the same, divided by ``num_samples``.
    khat : shape of the weights' tail, see :func:`pareto_khat`.
    num_samples : number of weights.
    """

    log_partition: float
    stderr: float
    elbo: float
    elbo_stderr: float
    ess: float
    ess_fraction: float
    khat: float
    num_samples: int

    def __float__(self) -> float:
        """The estimate itself, so that it can stand where a number is wanted."""
        return self.log_partition


def estimate_from_log_weights(log_weights: LogWeights) -> ImportanceEstimate:
    """Estimate log Z from log weights ``log p~(x) - log q(x)`` of states x drawn from q.

    Parameters
    ----------
    log_weights : one for each state; ``-inf`` for states that p forbids, but not for all.

    Raises
    ------
    WeightError
        If there is no weight, one is NaN or plus infinity, or all are zero.

    Examples
    --------
    >>> estimate = estimate_from_log_weights(torch.log(torch.tensor([1.0, 3.0])))
    >>> round(math.exp(estimate.log_partition), 6), round(estimate.ess, 6)
    (2.0, 1.6)
    """
    checked = _checked(log_weights)
    num_samples = checked.numel()
    weights = torch.softmax(checked, 0)
    ess = min(1.0 / float(weights.square().sum()), float(num_samples))  # rounding may exceed it
    return ImportanceEstimate(
        log_partition=float(torch.logsumexp(checked, 0)) - math.log(num_samples),
        stderr=_standard_error(weights * num_samples),
        elbo=float(checked.mean()),
        elbo_stderr=_standard_error(checked),
        ess=ess,
        ess_fraction=ess / num_samples,
        khat=pareto_khat(checked),
        num_samples=num_samples,
    )


def normalised_weights(log_weights: LogWeights) -> Float64[Tensor, "sample"]:
    """Weights that sum to one, in double precision, whatever the size of their logarithms.

    >>> normalised_weights(torch.tensor([5000.0, 5000.0, -torch.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    return torch.softmax(_checked(log_weights), 0)


def log_means(log_weights: Float64[Tensor, "sample"], size: int) -> Float64[Tensor, "group"]:
    """Log of the mean weight of each group of so many in a row.

    >>> log_means(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), 2).tolist()
    [0.0, 1.0]
    """
    if size == 1:
        return log_weights
    parts = torch.split(log_weights, size)
    return torch.stack([part.logsumexp(0) - math.log(len(part)) for part in parts])


def pareto_khat(log_weights: LogWeights) -> float:
    """Shape of the generalised Pareto distribution that fits the largest weights.

    Below 0.5 the weights have a variance, below 1 a mean; between 0.5 and 0.7 estimates from them
    still converge at a useful pace. Where no shape can be fitted, the answer leans to doubt:

    - ``inf`` with fewer than 25 weights, or where fewer than 5 of them stand out from the rest
      (one weight that dominates all others is such a case);
    - ``-inf`` if all weights, or all of the tail, are equal: the largest weight was seen many
      times, so there is no tail beyond it.

    Weights of a model with few states come in a few distinct values. Weights equal to the
    threshold are then left out of the tail.
    """
    log_ratios = _checked(log_weights)
    ratios = np.sort(torch.exp(log_ratios - log_ratios.max()).cpu().numpy())
    num_samples = len(ratios)
    num_tail = int(min(num_samples / 5, 3 * math.sqrt(num_samples)))
    if num_tail < _SMALLEST_TAIL:
        return math.inf
    threshold = ratios[-num_tail - 1]
    num_above = int((ratios > threshold).sum())
    if num_above == 0:
        return -math.inf
    if num_above < _SMALLEST_TAIL:
        return math.inf
    if ratios[-num_above] == ratios[-1]:
        return -math.inf
    # arviz-stats takes 3 sqrt(n / r_eff) weights for the tail; this makes it take num_above.
    tail_setting = 9 * num_samples / (num_above + 0.5) ** 2
    # It also expects log likelihoods, whose negatives are the log weights.
    with np.errstate(all="ignore"):
        stats = importlib.import_module("arviz_stats.base").array_stats
        _, khat = stats.psislw(-np.log(ratios), r_eff=tail_setting)
    return float(khat) if np.isfinite(khat) else math.inf


def _standard_error(values: Float64[Tensor, "sample"]) -> float:
    if len(values) == 1 or not bool(torch.isfinite(values).all()):
        return math.inf
    return float(values.std()) / math.sqrt(len(values))


def _checked(log_weights: LogWeights) -> Float64[Tensor, "sample"]:
    """The weights as doubles, after refusing what cannot be weights."""
    if not isinstance(log_weights, Tensor):
        log_weights = torch.from_numpy(np.asarray(log_weights))
    checked = log_weights.detach().to(torch.float64)
    if checked.ndim != 1 or checked.numel() == 0:
        raise WeightError(
            f"log weights must have shape (samples,) with at least one sample, "
            f"not {tuple(checked.shape)}"
        )
    for wrong, name in ((torch.isnan(checked), "NaN"), (checked == torch.inf, "plus infinity")):
        if bool(wrong.any()):
            raise WeightError(
                f"log weight {int(wrong.nonzero()[0])} is {name} ({int(wrong.sum())} of "
                f"{checked.numel()} are): the score of p or the probability of q is not finite"
            )
    if bool((checked == -torch.inf).all()):
        raise WeightError(
            f"all {checked.numel()} weights are zero: no sample is a possible state of the model; "
            "draw more samples or train the sampler further"
        )
    return checked
