"""A p that learns: tables from data with missing cells, and factor graphs by maximum likelihood."""

from deltaai.learning.from_table import learn
from deltaai.learning.likelihood.config import LikelihoodConfig
from deltaai.learning.likelihood.expectations import Expectation, ExpectedTables, WeightedStates
from deltaai.learning.likelihood.gradients import Gradient, GradientSettings, PhasedGradient
from deltaai.learning.likelihood.held_out import HeldOutLikelihood
from deltaai.learning.likelihood.learn_model import LikelihoodResult, learn_model
from deltaai.learning.likelihood.parameters import learnable, plain
from deltaai.learning.likelihood.pseudo_likelihood import log_pseudo_likelihood
from deltaai.learning.likelihood.registry import GRADIENTS, build_gradient, register_gradient
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.learning.report import LearnedModel, LearningReport
from deltaai.learning.tables.structure import structure_of

__all__ = [
    "GRADIENTS",
    "Expectation",
    "ExpectedTables",
    "Gradient",
    "GradientSettings",
    "HeldOutLikelihood",
    "LearnedModel",
    "LearningReport",
    "LearningRows",
    "LikelihoodConfig",
    "LikelihoodResult",
    "PhasedGradient",
    "WeightedStates",
    "build_gradient",
    "learn",
    "learn_model",
    "learnable",
    "log_pseudo_likelihood",
    "plain",
    "register_gradient",
    "structure_of",
]
