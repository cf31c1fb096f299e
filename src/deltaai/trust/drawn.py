"""Samples of a posterior with the verdict on them: what answers are made of."""

from __future__ import annotations

from dataclasses import dataclass

from deltaai.trust.verdicts import UNJUDGED, Verdict
from deltaai.trust.weighted import WeightedSamples


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples of a posterior, and what they are worth.

    Parameters
    ----------
    samples : weighted; log Z is theirs.
    refined : the ones that marginals are taken from.
    judged : their status.
    notes : what else to know of them.
    """

    samples: WeightedSamples
    refined: WeightedSamples
    judged: Verdict = UNJUDGED
    notes: tuple[str, ...] = ()
