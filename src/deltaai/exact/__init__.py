"""Exact inference: the enumeration oracle and elimination on chordal completions."""

import sys

from deltaai.budget import default_memory_limit
from deltaai.exact.callable_folder import CallableFolder
from deltaai.exact.conditioning import ConditionedInference
from deltaai.exact.cutset import Cutset, find_cutset
from deltaai.exact.enumeration import Enumeration
from deltaai.exact.inference import (
    ExactInference,
    MostLikely,
    exact,
    exact_conditionals,
    without_fixed,
)
from deltaai.exact.joints import joint_marginal
from deltaai.exact.memory import ExactCost, exact_cost
from deltaai.exact.rows import RowAnswers, RowInference

__all__ = [
    "ConditionedInference",
    "Cutset",
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
    "find_cutset",
    "joint_marginal",
    "without_fixed",
]

sys.modules[__name__].__class__ = CallableFolder  # deltaai.exact(model) is exact(model)
