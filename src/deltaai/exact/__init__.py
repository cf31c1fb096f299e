"""Exact inference: the enumeration oracle and elimination on chordal completions."""

import sys

from deltaai.budget import default_memory_limit
from deltaai.exact.callable_folder import CallableFolder
from deltaai.exact.conditioning import ConditionedInference
from deltaai.exact.cutset import Cutset, cutset_of, find_cutset
from deltaai.exact.enumeration import Enumeration
from deltaai.exact.gaussian.assembly import gaussian_field, not_gaussian
from deltaai.exact.gaussian.field import GaussianField
from deltaai.exact.gaussian.fill import GaussianCost, gaussian_cost, gaussian_elimination
from deltaai.exact.gaussian.inference import GaussianInference
from deltaai.exact.gaussian.rows import GaussianRows, gaussian_given
from deltaai.exact.inference import (
    ExactInference,
    exact,
    exact_conditionals,
    refuse_real,
)
from deltaai.exact.joints import joint_marginal, joint_of, refuse_large
from deltaai.exact.likeliest import MostLikely
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
from deltaai.exact.parts.part import Part, PartFactor
from deltaai.exact.parts.sums import PartCounts, PartSums, bytes_of
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
    "GaussianCost",
    "GaussianField",
    "GaussianInference",
    "GaussianRows",
    "LogTable",
    "MostLikely",
    "Part",
    "PartCounts",
    "PartFactor",
    "PartSums",
    "Remainder",
    "RowAnswers",
    "RowInference",
    "Scope",
    "add_all",
    "bytes_of",
    "cutset_of",
    "default_memory_limit",
    "exact",
    "exact_conditionals",
    "exact_cost",
    "find_cutset",
    "gaussian_cost",
    "gaussian_elimination",
    "gaussian_field",
    "gaussian_given",
    "joint_marginal",
    "joint_of",
    "log_marginalise",
    "log_sum_first",
    "not_gaussian",
    "refuse_large",
    "refuse_real",
    "sorted_tables",
]

sys.modules[__name__].__class__ = CallableFolder  # deltaai.exact(model) is exact(model)
