"""A p that learns: tables with missing cells, factor graphs by likelihood, models of images."""

from deltaai.learning.choices import LearningChoices
from deltaai.learning.em.config import LatentConfig
from deltaai.learning.em.latent_model import LatentModel
from deltaai.learning.em.learner import LatentLearner, pyramid_over
from deltaai.learning.em.steps.base import Batch, Draws, EStep, Parts
from deltaai.learning.em.steps.by_objective import DrawnStep, ObjectiveStep
from deltaai.learning.em.steps.importance import ImportanceStep
from deltaai.learning.em.steps.registry import E_STEPS, register_e_step
from deltaai.learning.em.steps.sleep import LikelihoodStep
from deltaai.learning.em.structure import LatentStructure
from deltaai.learning.em.terms import TermsAround
from deltaai.learning.energy.config import EnergyConfig
from deltaai.learning.energy.learner import EnergyLearner
from deltaai.learning.from_table import learn, learn_within
from deltaai.learning.image_learner import ImageLearner
from deltaai.learning.independent_rows import IndependentRows
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
from deltaai.learning.tables.start import wanted_structure
from deltaai.learning.tables.structure import Structure
from deltaai.learning.timed_learner import RowLearner, TimedLearner
from deltaai.learning.vae.autoencoder import VariationalAutoencoder
from deltaai.learning.vae.config import AutoencoderConfig

__all__ = [
    "E_STEPS",
    "GRADIENTS",
    "AutoencoderConfig",
    "Batch",
    "DrawnStep",
    "Draws",
    "EStep",
    "EnergyConfig",
    "EnergyLearner",
    "Expectation",
    "ExpectedTables",
    "Gradient",
    "GradientSettings",
    "HeldOutLikelihood",
    "ImageLearner",
    "ImportanceStep",
    "IndependentRows",
    "LatentConfig",
    "LatentLearner",
    "LatentModel",
    "LatentStructure",
    "LearnedModel",
    "LearningChoices",
    "LearningReport",
    "LearningRows",
    "LikelihoodConfig",
    "LikelihoodResult",
    "LikelihoodStep",
    "ObjectiveStep",
    "Parts",
    "PhasedGradient",
    "RowLearner",
    "Structure",
    "TermsAround",
    "TimedLearner",
    "VariationalAutoencoder",
    "WeightedStates",
    "build_gradient",
    "learn",
    "learn_model",
    "learn_within",
    "learnable",
    "log_pseudo_likelihood",
    "plain",
    "pyramid_over",
    "register_e_step",
    "register_gradient",
    "wanted_structure",
]
