"""Message passing on factor graphs: cheap estimates of marginals and log Z, and a bound."""

from deltaai.messages.loopy import BeliefPropagation, FactorBeliefs, loopy_belief_propagation
from deltaai.messages.mini_bucket import PartitionBound, mini_bucket_bound
from deltaai.messages.potentials import LARGEST_TABLE

__all__ = [
    "LARGEST_TABLE",
    "BeliefPropagation",
    "FactorBeliefs",
    "PartitionBound",
    "loopy_belief_propagation",
    "mini_bucket_bound",
]
