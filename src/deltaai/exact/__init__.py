"""Exact inference: the enumeration oracle and elimination on chordal completions."""

from deltaai.exact.enumeration import Enumeration
from deltaai.exact.inference import (
    ExactInference,
    MostLikely,
    exact,
    exact_conditionals,
    without_fixed,
)
from deltaai.exact.memory import ExactCost, default_memory_limit, exact_cost

__all__ = [
    "Enumeration",
    "ExactCost",
    "ExactInference",
    "MostLikely",
    "default_memory_limit",
    "exact",
    "exact_conditionals",
    "exact_cost",
    "without_fixed",
]
