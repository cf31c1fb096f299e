"""Models: variables, factors in groups of one shape, factor graphs, and a zoo of them."""

from deltaai.models.changes import log_changes, log_changes_at
from deltaai.models.checked_tables import checked_log_tables, describe_member
from deltaai.models.clamped_group import ClampedGroup, UnslicedGroup
from deltaai.models.conditioning import conditioned
from deltaai.models.encoding import encode_states, num_features
from deltaai.models.evidence import Evidence
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.factor_kinds import (
    FACTOR_KINDS,
    AlikeFactors,
    FactorKind,
    register_factor,
)
from deltaai.models.factors import (
    ConditionalTable,
    Factor,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    has_values,
)
from deltaai.models.frames import states_frame
from deltaai.models.function_group import FunctionFactor, FunctionGroup
from deltaai.models.groups import Columns, FactorGroup, joint_states, states_of
from deltaai.models.incidence import Incidence
from deltaai.models.interval import Interval
from deltaai.models.neural_group import NeuralGroup, network_inputs
from deltaai.models.partial_scores import PartialEnergy, partial_log_scores
from deltaai.models.placement import on_cpu, on_device
from deltaai.models.quadratic_factors import (
    GaussianFactor,
    LinearGaussian,
    MixtureFactor,
    QuadraticFactor,
)
from deltaai.models.quadratic_group import MixtureGroup, QuadraticGroup
from deltaai.models.spin_group import SpinGroup
from deltaai.models.state_checks import States
from deltaai.models.storage import model_from_tensors, model_to_tensors
from deltaai.models.supposed import Likelihood, intervened, set_free, with_likelihoods
from deltaai.models.table_group import ConditionalTableGroup, TableGroup, strides_of
from deltaai.models.target import Target
from deltaai.models.temperature import tempered
from deltaai.models.units import StandardUnits, standard_units, standardised
from deltaai.models.variable import StateIndex, Variable
from deltaai.models.zeros.determinism import propagate_zeros, zeros_propagated
from deltaai.models.zeros.reduction import Reduction
from deltaai.models.zeros.smoothing import has_zeros, smoothed

__all__ = [
    "FACTOR_KINDS",
    "AlikeFactors",
    "ClampedGroup",
    "Columns",
    "ConditionalTable",
    "ConditionalTableGroup",
    "Evidence",
    "Factor",
    "FactorGraph",
    "FactorGroup",
    "FactorKind",
    "FunctionFactor",
    "FunctionGroup",
    "GaussianFactor",
    "Incidence",
    "Interval",
    "Likelihood",
    "LinearGaussian",
    "MixtureFactor",
    "MixtureGroup",
    "NeuralFactor",
    "NeuralGroup",
    "PartialEnergy",
    "QuadraticFactor",
    "QuadraticGroup",
    "Reduction",
    "SpinCoupling",
    "SpinField",
    "SpinGroup",
    "StandardUnits",
    "StateIndex",
    "States",
    "TableFactor",
    "TableGroup",
    "Target",
    "UnslicedGroup",
    "Variable",
    "checked_log_tables",
    "conditioned",
    "describe_member",
    "encode_states",
    "has_values",
    "has_zeros",
    "intervened",
    "joint_states",
    "log_changes",
    "log_changes_at",
    "model_from_tensors",
    "model_to_tensors",
    "network_inputs",
    "num_features",
    "on_cpu",
    "on_device",
    "partial_log_scores",
    "propagate_zeros",
    "register_factor",
    "set_free",
    "smoothed",
    "standard_units",
    "standardised",
    "states_frame",
    "states_of",
    "strides_of",
    "tempered",
    "with_likelihoods",
    "zeros_propagated",
]
