"""Drawing states, and judging how far what was drawn can be trusted."""

from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.any_order_policy import AnyOrderPolicy
from deltaai.sampling.conditioned import GivenSchedule, sample_given, sample_sequentially
from deltaai.sampling.importance import (
    ImportanceEstimate,
    estimate_from_log_weights,
    log_means,
    normalised_weights,
    pareto_khat,
)
from deltaai.sampling.orders import Orders, OrdersKind
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.sampling.weights import estimate_partition

__all__ = [
    "ON_POLICY",
    "AnyOrderPolicy",
    "GivenSchedule",
    "ImportanceEstimate",
    "Orders",
    "OrdersKind",
    "Policy",
    "Schedule",
    "estimate_from_log_weights",
    "estimate_partition",
    "log_means",
    "normalised_weights",
    "pareto_khat",
    "sample_ancestrally",
    "sample_given",
    "sample_sequentially",
]
