"""Message passing on factor graphs: cheap estimates of marginals and log Z."""

from deltaai.messages.loopy import BeliefPropagation, FactorBeliefs, loopy_belief_propagation
from deltaai.messages.potentials import LARGEST_TABLE

__all__ = ["LARGEST_TABLE", "BeliefPropagation", "FactorBeliefs", "loopy_belief_propagation"]
