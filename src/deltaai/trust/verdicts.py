"""How far an estimate can be trusted: reasons to doubt it, and the status that follows.

Importance weights tell of their own unevenness, and some doubts follow from that: too few effective
samples, a heavy tail (Pareto k-hat above 0.7), halves that disagree. They cannot tell of states
that were never drawn. Against that stands a second opinion
(:mod:`deltaai.trust.opinions`), weighted samples of the same posterior that know nothing
of q. Three things must agree, within the errors of both:

- log Z, from below: both are unbiased, so an opinion that is clearly higher has found what the
  answer misses; one that is lower may itself have missed something;
- every marginal, of real variables on the bins of the answer;
- the distribution of u(x) = log p~(x) - log q(x) under p. Where the opinion finds more probability
  at large u than the weighted samples of q expect, there are states that q hardly ever draws.

Agreement proves as much as the opinion could see, and an answer says how much that is. Where there
is no opinion, or one that sees next to nothing, nothing speaks against the answer and nothing for
it: it is ``"unchecked"``. An upper bound on log Z that owes nothing to q is a third opinion: an
estimate above it is wrong, and an estimate just below it cannot have missed much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import scipy  # its parts come when they are needed
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.importance import ImportanceEstimate, log_means, normalised_weights
from deltaai.trust.weighted import WeightedSamples

Status = Literal["exact", "bounded", "estimated", "unchecked", "untrusted"]

FEWEST_EFFECTIVE = 400  # samples; a probability is then known to within 0.05
HEAVIEST_TAIL = 0.7
LARGEST_ERROR = 0.0125  # of a marginal: four of them are 0.05
# Weights this even have no tail to speak of; a shape fitted to their differences means nothing.
EVEN_SHARE = 0.9
FEWEST_GROUPS = 8  # of particles that are resampled together; fewer tell no error
# u by which q gives a state too little, in nats, and the share of p that may always be there.
TOO_LITTLE = 2.0
TOLERATED = 0.005
# Standard errors by which an opinion may lie above an estimate of log Z, and the chance of a false
# alarm over all marginals of an answer.
FARTHEST_OPINION = 4.5
FALSE_ALARMS = 1e-3
# A marginal this near to the opinion's is not worth an alarm, however small its error.
NEAR_ENOUGH = 0.005
# An opinion that could not see a part of this share has nothing to say.
BLIND = 0.5
# Standard errors by which two halves of the samples may differ.
FARTHEST_HALVES = 5.0
# Width in nats of a bracket of log Z that answers the question by itself.
NARROW = 0.2


@dataclass(frozen=True)
class Verdict:
    """A status, and why.

    Parameters
    ----------
    status : ``"untrusted"`` if there are doubts; without any ``"estimated"``, or ``"unchecked"`` if
        a second opinion had nothing to say.
    doubts : one sentence each, with the remedy.
    visible_share : parts of the distribution larger than this would have been missed by a check;
        none if there was no check.
    """

    status: Status
    doubts: tuple[str, ...] = ()
    visible_share: float | None = None

    def __str__(self) -> str:
        """The status, and the doubts behind a colon."""
        return self.status if not self.doubts else f"{self.status}: {'; '.join(self.doubts)}"


UNJUDGED = Verdict("unchecked")


def doubted(judged: Verdict, more: tuple[str, ...]) -> Verdict:
    """The same with further doubts, if there are any."""
    return replace(judged, status="untrusted", doubts=judged.doubts + more) if more else judged


def judge_weights(estimate: ImportanceEstimate, group_size: int = 1) -> tuple[str, ...]:
    """Doubts that the weights themselves raise.

    Parameters
    ----------
    group_size : how many in a row were resampled together. The tail of such weights says little,
        for the heavy ones have become copies; :func:`judge_groups` looks at the groups instead.

    Examples
    --------
    >>> from deltaai.importance import estimate_from_log_weights
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
    is_heavy = estimate.khat > HEAVIEST_TAIL and estimate.ess_fraction < EVEN_SHARE
    if is_heavy and group_size == 1:
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
    if log_partition <= bracket[1] + FARTHEST_OPINION * stderr + 1e-6 * (1 + abs(bracket[1])):
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


def judge_groups(answer: WeightedSamples) -> tuple[str, ...]:
    """Doubts that arise if few of the groups of particles carry the answer."""
    effective = answer.estimate.ess_fraction * answer.num_groups
    if answer.group_size == 1 or effective >= FEWEST_GROUPS:
        return ()
    return (
        f"only {effective:.2g} of {answer.num_groups} groups of particles carry the answer: draw "
        "more samples, or train for evidence",
    )


def judge_errors(refined: WeightedSamples) -> tuple[str, ...]:
    """Doubts that arise if a marginal is not known well enough to be told.

    Parameters
    ----------
    refined : the samples that the marginals are taken from.
    """
    error = refined.largest_error
    if error <= LARGEST_ERROR:
        return ()
    return (
        f"a marginal is only known within ± {2 * error:.2g}: draw more samples, or train longer",
    )


def samples_needed(answer: WeightedSamples, refined: WeightedSamples) -> float:
    """How many samples would do away with the doubts that their number raises, roughly."""
    effective = FEWEST_EFFECTIVE / answer.estimate.ess
    known = (refined.largest_error / LARGEST_ERROR) ** 2
    share = 1.1 * max(effective, known)  # a little more, for both are estimates themselves
    return len(answer.states) * share if share > 1.1 else 0.0


def judge_samples(answer: WeightedSamples, refined: WeightedSamples) -> tuple[str, ...]:
    """Doubts that weighted samples raise by themselves, without a second opinion.

    Parameters
    ----------
    refined : the samples that the marginals are taken from.
    """
    return (
        *judge_weights(answer.estimate, answer.group_size),
        *judge_groups(answer),
        *judge_halves(answer.log_weights, answer.group_size),
        *judge_errors(refined),
    )


def judge_partition(answer: WeightedSamples, opinion: WeightedSamples) -> tuple[str, ...]:
    """Doubts that arise if a second opinion finds more probability in all, or has a lower bound."""
    found, other = answer.estimate, opinion.estimate
    error = math.hypot(found.stderr, other.stderr)
    above = other.log_partition - found.log_partition
    if not above > FARTHEST_OPINION * error + 1e-6 * (1 + abs(found.log_partition)):
        return judge_bracket(found.log_partition, found.stderr, (-math.inf, opinion.upper))
    return (
        f"the estimate of log Z is {found.log_partition:.6g} ± {found.stderr:.2g}, but "
        f"{opinion.method} find {other.log_partition:.6g} ± {other.stderr:.2g}: a part of the "
        "distribution is missing; train longer, or for this evidence",
    )


def judge_marginals(answer: WeightedSamples, opinion: WeightedSamples) -> tuple[str, ...]:
    """Doubts that arise if a second opinion finds other marginals.

    Parameters
    ----------
    answer : the samples that the marginals are taken from.
    """
    cells = answer.cells
    mean, error = answer.moments
    other, other_error = opinion.on(cells).moments
    difference = (mean - other).abs()
    spread = torch.hypot(error, other_error)
    # Welch and Satterthwaite: that there are few groups matters as far as their error does.
    share = (error / spread.clamp(min=1e-12)).square()
    few, many = answer.num_groups - 1, min(opinion.num_groups, opinion.effective) - 1
    degrees = 1 / (share.square() / max(few, 1) + (1 - share).square() / max(many, 1))
    chance = FALSE_ALARMS / 2 / max(len(mean), 1)
    reach = torch.from_numpy(-scipy.special.stdtrit(degrees.numpy(), chance))
    excess = (difference / spread.clamp(min=1e-12)).masked_fill(difference < NEAR_ENOUGH, 0.0)
    excess = excess / reach
    if not bool((excess > 1).any()):
        return ()
    pair = int(excess.argmax())
    return (
        f"P({cells.name_of(answer.model, pair)}) is {mean[pair]:.3f} ± {error[pair]:.2g}, but "
        f"{opinion.method} find {other[pair]:.3f} ± {other_error[pair]:.2g}: train longer, or for "
        "this evidence",
    )


def judge_coverage(
    log_weights: Float64[Tensor, "sample"],
    sample_excess: Float64[Tensor, "sample"],
    opinion: WeightedSamples,
    opinion_excess: Float64[Tensor, "other"],
) -> tuple[str, ...]:
    """Doubts that arise if a second opinion goes where the samples of q do not.

    Parameters
    ----------
    log_weights : of samples of q.
    sample_excess : u at these samples.
    opinion_excess : u at the samples of the opinion.
    """
    weights = normalised_weights(log_weights)
    # Levels of u relative to what is typical of p by q's own account.
    typical = float(weights @ sample_excess.where(sample_excess > -torch.inf, 0.0))
    level = typical + TOO_LITTLE
    expected = float(weights[sample_excess > level].sum())
    found = float(normalised_weights(opinion.log_weights)[opinion_excess > level].sum())
    count = opinion.effective
    noise = 3 * (expected * (1 - expected) / count) ** 0.5 + 0.5 / count
    if found <= expected + TOLERATED + noise:
        return ()
    return (
        f"{found:.2g} of the distribution, by {opinion.method}, lies at states that the sampler "
        f"draws far too seldom (it expects {expected:.2g}): it misses a part; train longer, with "
        "another seed or a flatter policy",
    )


def smallest_seen(opinion: WeightedSamples | None) -> float:
    """Share of p that a part must have to be found by :func:`judge_coverage` in 95 % of cases."""
    return 1.0 if opinion is None else min(opinion.visible_share + 2 * TOLERATED, 1.0)


def verdict(*doubts: tuple[str, ...], visible_share: float | None = None) -> Verdict:
    """Join doubts from several sources, and what a check could see.

    >>> str(verdict((), ("too few samples",)))
    'untrusted: too few samples'
    >>> verdict(visible_share=0.04).status, verdict().status
    ('estimated', 'unchecked')
    """
    together = tuple(doubt for some in doubts for doubt in some)
    is_checked = visible_share is not None and visible_share < BLIND
    status: Status = "untrusted" if together else "estimated" if is_checked else "unchecked"
    return Verdict(status, together, visible_share)
