"""Drawing states from q: by levels, along orders, given evidence; and what their weights say."""

from deltaai.sampling.ancestral import sample_ancestrally, sample_with_conditionals
from deltaai.sampling.any_order_policy import AnyOrderPolicy
from deltaai.sampling.conditioned import sample_sequentially
from deltaai.sampling.evidence import AnyEvidence, EvidenceKind, FixedEvidence
from deltaai.sampling.kept_schedules import KeptSchedules
from deltaai.sampling.levels import Schedule
from deltaai.sampling.orders import Orders, OrdersKind
from deltaai.sampling.paths import Given, Paths
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.sampling.sources import Source
from deltaai.sampling.values import ChainValues, DataValues, Values
from deltaai.sampling.weights import estimate_partition

__all__ = [
    "ON_POLICY",
    "AnyEvidence",
    "AnyOrderPolicy",
    "ChainValues",
    "DataValues",
    "EvidenceKind",
    "FixedEvidence",
    "Given",
    "KeptSchedules",
    "Orders",
    "OrdersKind",
    "Paths",
    "Policy",
    "Schedule",
    "Source",
    "Values",
    "estimate_partition",
    "sample_ancestrally",
    "sample_sequentially",
    "sample_with_conditionals",
]
