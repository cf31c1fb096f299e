"""Negative log-likelihood: how well a sampler's q explains states of the target p.

For states x_1..x_n drawn from p,

    NLL = -1/n Σ log q(x_i) ≈ H(p) + KL(p ‖ q),

so it cannot fall below the entropy of p but by chance. Where log p is known, the paired difference

    gap = 1/n Σ (log p(x_i) - log q(x_i)) ≈ KL(p ‖ q)

takes the entropy out and, with it, most of the noise. This file draws no states and normalises
nothing: both log-probabilities must be those of distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from deltaai.errors import ConfigError, StateError

LogProb = Callable[[Tensor], Tensor]  # states (batch, variables) -> log-probabilities (batch,)


@dataclass(frozen=True)
class Likelihood:
    """Mean negative log-likelihood in nats, and what it is above the target's own.

    Parameters
    ----------
    mean : -1/n Σ log q(x_i); infinite if q forbids one of the states.
    stderr : its standard error; infinite for one state, or if the mean is.
    gap : mean minus that of the target at the same states, an estimate of KL(p ‖ q); ``None``
        where the target's is not known. It may be slightly negative by chance.
    gap_stderr : standard error of the gap, from paired differences.
    num_states : n.
    """

    mean: float
    stderr: float
    gap: float | None
    gap_stderr: float | None
    num_states: int


def negative_log_likelihood(
    log_prob_fn: LogProb,
    states: Int[Tensor, "sample var"],
    batch: int = 1024,
    exact_log_prob: Float[Tensor, "sample"] | None = None,
) -> Likelihood:
    """Average -log q over states of the target, a batch at a time.

    Parameters
    ----------
    log_prob_fn : log q of states, for example ``sampler.log_prob``.
    states : drawn from the target.
    batch : states evaluated at once; bounds the memory.
    exact_log_prob : the target's log p at the same states, where an exact engine gives it.

    Examples
    --------
    >>> uniform = lambda x: torch.full((len(x),), -math.log(4.0))
    >>> states = torch.tensor([[0, 0], [0, 1], [1, 1]])
    >>> round(negative_log_likelihood(uniform, states).mean, 4)
    1.3863
    """
    if len(states) == 0:
        raise StateError("no states to take the likelihood of: give at least one")
    if batch < 1:
        raise ConfigError(f"batch is {batch}: it must be at least 1")
    with torch.no_grad():
        parts = [log_prob_fn(block).double() for block in torch.split(states, batch)]
    log_q = torch.cat(parts)
    if log_q.shape != (len(states),):
        raise StateError(
            f"the log-probabilities of {len(states)} states have shape {tuple(log_q.shape)}: "
            "log_prob_fn must return one for each state"
        )
    if bool(log_q.isnan().any()):
        number = int(log_q.isnan().nonzero()[0])
        raise StateError(f"the log-probability of state {number} is NaN: q is not a distribution")
    mean, stderr = _mean(-log_q)
    gap, gap_stderr = None, None
    if exact_log_prob is not None:
        if len(exact_log_prob) != len(states):
            raise StateError(
                f"{len(exact_log_prob)} exact log-probabilities for {len(states)} states"
            )
        gap, gap_stderr = _mean(exact_log_prob.double() - log_q)
    return Likelihood(mean, stderr, gap, gap_stderr, len(states))


def _mean(values: Float64[Tensor, "sample"]) -> tuple[float, float]:
    """Mean and standard error."""
    mean = float(values.mean())
    if len(values) == 1 or not math.isfinite(mean):
        return mean, math.inf
    return mean, float(values.std()) / math.sqrt(len(values))
