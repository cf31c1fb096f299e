"""Message passing on factor graphs: cheap estimates of marginals and log Z, and a bound."""

from deltaai.messages.loopy.potentials import LARGEST_TABLE
from deltaai.messages.loopy.propagation import (
    BeliefPropagation,
    FactorBeliefs,
    loopy_belief_propagation,
)
from deltaai.messages.mini_buckets.bound import PartitionBound, mini_bucket_bound
from deltaai.messages.mini_buckets.message_factors import MessagePlan, affordable_messages
from deltaai.messages.mini_buckets.sampling import MessageSampler
from deltaai.messages.mini_buckets.tight_messages import TightMessages, best_order

__all__ = [
    "LARGEST_TABLE",
    "BeliefPropagation",
    "FactorBeliefs",
    "MessagePlan",
    "MessageSampler",
    "PartitionBound",
    "TightMessages",
    "affordable_messages",
    "best_order",
    "loopy_belief_propagation",
    "mini_bucket_bound",
]
