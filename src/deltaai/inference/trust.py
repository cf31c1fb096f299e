"""How far an estimate can be trusted: reasons to doubt it, and the status that follows.

Importance weights tell of their own unevenness, and two doubts follow from that: too few effective
samples, and a heavy tail (Pareto k-hat above 0.7). They cannot tell of states that q never draws: a
q that lost a mode has perfect weights and a log Z that is too low. Against that stands a second
opinion, Markov chains that know nothing of q. Let

    u(x) = log p~(x) - log q(x).

For x from p, u has the same distribution whether x comes from chains or from weighted samples of
q. Where chains find much more probability at large u, there are states that q hardly ever draws,
and the estimate is not to be trusted. Chains that got stuck can miss a mode as well, so agreement
proves nothing; disagreement does.

An upper bound on log Z that owes nothing to q is a third opinion: an estimate above it is wrong,
and an estimate just below it cannot have missed much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import StateError
from deltaai.sampling.importance import ImportanceEstimate, log_means, normalised_weights

Status = Literal["exact", "bounded", "estimated", "untrusted"]

FEWEST_EFFECTIVE = 400  # samples; a probability is then known to within 0.05
HEAVIEST_TAIL = 0.7
# Weights this even have no tail to speak of; a shape fitted to their differences means nothing.
EVEN_SHARE = 0.9
# u by which q gives a state too little, in nats, and the share of p that may be there unnoticed.
TOO_LITTLE = 2.0
UNNOTICED = 0.05
# Standard errors by which two halves of the samples may differ.
FARTHEST_HALVES = 5.0
# Width in nats of a bracket of log Z that answers the question by itself.
NARROW = 0.2


@dataclass(frozen=True)
class Verdict:
    """A status, and why.

    Parameters
    ----------
    status : ``"estimated"`` if there is nothing against it, else ``"untrusted"``.
    doubts : one sentence each, with the remedy.
    """

    status: Status
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The status, and the doubts behind a colon."""
        return self.status if not self.doubts else f"{self.status}: {'; '.join(self.doubts)}"


def judge_weights(estimate: ImportanceEstimate) -> tuple[str, ...]:
    """Doubts that the weights themselves raise.

    Examples
    --------
    >>> from deltaai.sampling.importance import estimate_from_log_weights
    >>> even = estimate_from_log_weights(torch.zeros(1000))
    >>> judge_weights(even)
    ()
    """
    doubts = []
    if estimate.ess < FEWEST_EFFECTIVE:
        doubts.append(
            f"only {estimate.ess:.3g} of {estimate.num_samples} samples are effective: draw more, "
            "or train longer"
        )
    if estimate.khat > HEAVIEST_TAIL and estimate.ess_fraction < EVEN_SHARE:
        doubts.append(
            f"a few samples carry the answer (k-hat {estimate.khat:.2f}): train longer, or for "
            "this evidence"
        )
    return tuple(doubts)


def judge_halves(log_weights: Float64[Tensor, "sample"], group_size: int = 1) -> tuple[str, ...]:
    """Doubts that arise if two halves of the samples, drawn apart, disagree about log Z.

    Parameters
    ----------
    log_weights : of samples; as many as ``group_size`` in a row depend on each other.
    """
    middle = len(log_weights) // group_size // 2 * group_size
    halves = [part for part in (log_weights[:middle], log_weights[middle:]) if len(part)]
    if len(halves) < 2 or any(bool((part == -torch.inf).all()) for part in halves):
        return ()  # too few to compare
    means = [log_means(part, group_size) for part in halves]
    first, second = (float(part.logsumexp(0)) - math.log(len(part)) for part in means)
    # Standard errors of the logs, from weights divided by their mean.
    errors = [float((len(part) * part.softmax(0)).std()) / len(part) ** 0.5 for part in means]
    if not abs(first - second) > FARTHEST_HALVES * math.hypot(*errors):
        return ()
    return (
        f"two halves of the samples disagree about log Z ({first:.4g} and {second:.4g}): draw "
        "more samples, or train longer",
    )


def judge_bracket(
    log_partition: float, stderr: float, bracket: tuple[float, float]
) -> tuple[str, ...]:
    """Doubts that arise if an estimate of log Z is above what it can be.

    >>> judge_bracket(3.0, 0.01, (2.9, 3.2)), len(judge_bracket(4.0, 0.01, (3.9, 3.2)))
    ((), 1)
    """
    if log_partition <= bracket[1] + 4 * stderr + 1e-6 * abs(bracket[1]):
        return ()
    return (
        f"the estimate of log Z, {log_partition:.6g}, is above its upper bound {bracket[1]:.6g}: "
        "train longer, or with another seed",
    )


def is_narrow(bracket: tuple[float, float] | None) -> bool:
    """Whether a bracket of log Z is an answer by itself.

    >>> is_narrow((1.0, 1.1)), is_narrow((1.0, 3.0)), is_narrow(None)
    (True, False, False)
    """
    return bracket is not None and 0 <= bracket[1] - bracket[0] <= NARROW


def judge_coverage(
    log_weights: Float64[Tensor, "sample"],
    sample_excess: Float64[Tensor, "sample"],
    chain_excess: Float64[Tensor, "chain"],
) -> tuple[str, ...]:
    """Doubts that independent chains raise.

    Parameters
    ----------
    log_weights : of samples of q.
    sample_excess : u at these samples.
    chain_excess : u at the ends of chains.
    """
    if len(chain_excess) == 0:
        raise StateError("no chains to judge by: give the ends of at least one")
    weights = normalised_weights(log_weights)
    # Levels of u relative to what is typical of p by q's own account.
    typical = float(weights @ sample_excess.where(sample_excess > -torch.inf, 0.0))
    level = typical + TOO_LITTLE
    expected = float(weights[sample_excess > level].sum())
    found = float((chain_excess > level).double().mean())
    noise = 3 * (max(expected * (1 - expected), 1e-4) / len(chain_excess)) ** 0.5
    if found <= expected + UNNOTICED + noise:
        return ()
    return (
        f"{found:.0%} of independent chains end at states that the sampler draws far too seldom "
        f"(it expects {expected:.0%}): it misses a part of the distribution; train longer, with "
        "another seed or a flatter policy",
    )


def verdict(*doubts: tuple[str, ...]) -> Verdict:
    """Join doubts from several sources.

    >>> str(verdict((), ("too few samples",)))
    'untrusted: too few samples'
    """
    together = tuple(doubt for some in doubts for doubt in some)
    return Verdict("untrusted" if together else "estimated", together)
