"""A p that learns: maximum likelihood for factor graphs, from complete and incomplete rows."""

from deltaai.learning.likelihood.config import LikelihoodConfig
from deltaai.learning.likelihood.expectations import Expectation, ExpectedTables, WeightedStates
from deltaai.learning.likelihood.gradients import Gradient, GradientSettings, PhasedGradient
from deltaai.learning.likelihood.held_out import HeldOutLikelihood
from deltaai.learning.likelihood.learn_model import LearnedModel, learn_model
from deltaai.learning.likelihood.parameters import learnable, plain
from deltaai.learning.likelihood.pseudo_likelihood import log_pseudo_likelihood
from deltaai.learning.likelihood.registry import GRADIENTS, build_gradient, register_gradient
from deltaai.learning.likelihood.rows import LearningRows

__all__ = [
    "GRADIENTS",
    "Expectation",
    "ExpectedTables",
    "Gradient",
    "GradientSettings",
    "HeldOutLikelihood",
    "LearnedModel",
    "LearningRows",
    "LikelihoodConfig",
    "PhasedGradient",
    "WeightedStates",
    "build_gradient",
    "learn_model",
    "learnable",
    "log_pseudo_likelihood",
    "plain",
    "register_gradient",
]
