"""Heads: what the numbers that a body gives for a variable mean, one file a kind of variable."""

from deltaai.conditionals.heads.base import Exploration, Head, LogDensity, Parameters, Values
from deltaai.conditionals.heads.beta import Beta
from deltaai.conditionals.heads.categorical import Categorical, GivenStates
from deltaai.conditionals.heads.choice import REAL_HEADS, HeadBuilder, head_for, register_head
from deltaai.conditionals.heads.mixture import Mixture
from deltaai.conditionals.heads.normal import Normal
from deltaai.conditionals.heads.real import RealHead
from deltaai.conditionals.heads.truncated_normal import TruncatedNormal

__all__ = [
    "REAL_HEADS",
    "Beta",
    "Categorical",
    "Exploration",
    "GivenStates",
    "Head",
    "HeadBuilder",
    "LogDensity",
    "Mixture",
    "Normal",
    "Parameters",
    "RealHead",
    "TruncatedNormal",
    "Values",
    "head_for",
    "register_head",
]
