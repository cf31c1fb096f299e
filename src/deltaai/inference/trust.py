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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import StateError
from deltaai.sampling.importance import ImportanceEstimate, normalised_weights

Status = Literal["exact", "bounded", "estimated", "untrusted"]

FEWEST_EFFECTIVE = 100  # samples
HEAVIEST_TAIL = 0.7
# Weights this even have no tail to speak of; a shape fitted to their differences means nothing.
EVEN_SHARE = 0.9
# u by which q gives a state too little, in nats, and the share of p that may be there unnoticed.
TOO_LITTLE = 2.0
UNNOTICED = 0.05


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
