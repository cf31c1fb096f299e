"""Drawing states, and judging how far what was drawn can be trusted."""

from deltaai.sampling.importance import (
    ImportanceEstimate,
    WeightError,
    estimate_from_log_weights,
    normalised_weights,
    pareto_khat,
)

__all__ = [
    "ImportanceEstimate",
    "WeightError",
    "estimate_from_log_weights",
    "normalised_weights",
    "pareto_khat",
]
