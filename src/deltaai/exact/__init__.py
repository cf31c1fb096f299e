"""Exact inference: the enumeration oracle and elimination on chordal completions."""

import sys

from deltaai.budget import default_memory_limit
from deltaai.exact.callable_folder import CallableFolder
from deltaai.exact.conditioning import ConditionedInference
from deltaai.exact.cutset import Cutset, cutset_of, find_cutset
from deltaai.exact.enumeration import Enumeration
from deltaai.exact.inference import (
    ExactInference,
    MostLikely,
    exact,
    exact_conditionals,
)
from deltaai.exact.joints import joint_marginal, joint_of, refuse_large
from deltaai.exact.log_tables import (
    Buffers,
    LogTable,
    Scope,
    add_all,
    log_marginalise,
    log_sum_first,
    sorted_tables,
)
from deltaai.exact.memory import ExactCost, exact_cost
from deltaai.exact.remainder import Remainder
from deltaai.exact.rows.answers import ExpectedCounts, RowAnswers
from deltaai.exact.rows.engine import RowInference

__all__ = [
    "Buffers",
    "ConditionedInference",
    "Cutset",
    "Enumeration",
    "ExactCost",
    "ExactInference",
    "ExpectedCounts",
    "LogTable",
    "MostLikely",
    "Remainder",
    "RowAnswers",
    "RowInference",
    "Scope",
    "add_all",
    "cutset_of",
    "default_memory_limit",
    "exact",
    "exact_conditionals",
    "exact_cost",
    "find_cutset",
    "joint_marginal",
    "joint_of",
    "log_marginalise",
    "log_sum_first",
    "refuse_large",
    "sorted_tables",
]

sys.modules[__name__].__class__ = CallableFolder  # deltaai.exact(model) is exact(model)
