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
from deltaai.exact.rows import RowAnswers, RowInference

__all__ = [
    "Enumeration",
    "ExactCost",
    "ExactInference",
    "MostLikely",
    "RowAnswers",
    "RowInference",
    "default_memory_limit",
    "exact",
    "exact_conditionals",
    "exact_cost",
    "without_fixed",
]
