"""Weighted samples, what they are worth, and the answers that come of them."""

from deltaai.trust.answer import Answer, exact_answer, sampled_answer, sampled_quality
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
    "UNJUDGED",
    "Answer",
    "Asked",
    "Drawn",
    "Estimate",
    "Marginals",
    "Quality",
    "Samples",
    "Verdict",
    "WeightedSamples",
    "exact_answer",
    "expanded_joints",
    "judge_coverage",
    "judge_marginals",
    "judge_partition",
    "judge_samples",
    "sampled_answer",
    "sampled_joint",
    "sampled_quality",
    "samples_needed",
    "second_opinion",
    "smallest_seen",
    "verdict",
    "what_was_checked",
]
