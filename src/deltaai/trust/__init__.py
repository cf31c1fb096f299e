"""Weighted samples, what they are worth, and the answers that come of them."""

from deltaai.real_marginals import QUANTILES, RealMarginal
from deltaai.trust.answer import (
    Answer,
    exact_answer,
    finished,
    sampled_answer,
    sampled_quality,
    with_joints,
    with_observed,
)
from deltaai.trust.asked import asked_names, checked_joints, joints_of, refuse_joints
from deltaai.trust.checking import Check
from deltaai.trust.drawn import Drawn
from deltaai.trust.estimate import Asked, Estimate, Marginals, Quality, what_was_checked
from deltaai.trust.joints import expanded_joints, sampled_joint
from deltaai.trust.opinions import CHECK_SAMPLES, second_opinion
from deltaai.trust.samples import Samples
from deltaai.trust.verdicts import (
    BLIND,
    UNJUDGED,
    Verdict,
    judge_coverage,
    judge_marginals,
    judge_partition,
    judge_samples,
    samples_needed,
    smallest_seen,
    verdict,
)
from deltaai.trust.weighted import WeightedSamples

__all__ = [
    "BLIND",
    "CHECK_SAMPLES",
    "QUANTILES",
    "UNJUDGED",
    "Answer",
    "Asked",
    "Check",
    "Drawn",
    "Estimate",
    "Marginals",
    "Quality",
    "RealMarginal",
    "Samples",
    "Verdict",
    "WeightedSamples",
    "asked_names",
    "checked_joints",
    "exact_answer",
    "expanded_joints",
    "finished",
    "joints_of",
    "judge_coverage",
    "judge_marginals",
    "judge_partition",
    "judge_samples",
    "refuse_joints",
    "sampled_answer",
    "sampled_joint",
    "sampled_quality",
    "samples_needed",
    "second_opinion",
    "smallest_seen",
    "verdict",
    "what_was_checked",
    "with_joints",
    "with_observed",
]
