"""Conditionals: q(x_v | what is known), in families that answer the same three questions."""

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.context import Context
from deltaai.conditionals.dense import DenseLayers, uniform_weights
from deltaai.conditionals.encoding import Encoding
from deltaai.conditionals.evidence import (
    MOST_CONTEXT,
    evidence_layout,
    fixed_evidence_layout,
    inputs_of,
    without_vertices,
)
from deltaai.conditionals.families import (
    FAMILIES,
    Family,
    FamilyBuilder,
    FamilySettings,
    build_conditionals,
    register_family,
)
from deltaai.conditionals.flips import Activation
from deltaai.conditionals.heads import (
    REAL_HEADS,
    Beta,
    Categorical,
    Exploration,
    GivenStates,
    Head,
    Mixture,
    Normal,
    RealHead,
    TruncatedNormal,
    head_for,
    register_head,
)
from deltaai.conditionals.informed import relative_slices
from deltaai.conditionals.knowledge import FactorKnowledge, Inputs, Knowledge, NoKnowledge
from deltaai.conditionals.layout import Block, Layout
from deltaai.conditionals.local import LocalConditionals, gather_inputs
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.conditionals.message_knowledge import MessageKnowledge
from deltaai.conditionals.normal_given import (
    bent_variables,
    normal_places,
    settled_variables,
)
from deltaai.conditionals.proposal import (
    Observed,
    Proposal,
    known_given,
    known_under,
    log_conditionals_of,
    refuse_zeros,
)
from deltaai.conditionals.ratios import log_ratios_of
from deltaai.conditionals.stacked import Stacked
from deltaai.conditionals.table import TableConditionals, exact_proposal

__all__ = [
    "FAMILIES",
    "MOST_CONTEXT",
    "REAL_HEADS",
    "Activation",
    "Beta",
    "Block",
    "Categorical",
    "Conditionals",
    "Context",
    "DenseLayers",
    "Encoding",
    "Exploration",
    "FactorKnowledge",
    "Family",
    "FamilyBuilder",
    "FamilySettings",
    "GivenStates",
    "Head",
    "Inputs",
    "Knowledge",
    "Known",
    "Layout",
    "LocalConditionals",
    "MaskedAutoencoder",
    "MessageKnowledge",
    "Mixture",
    "NoKnowledge",
    "Normal",
    "Observed",
    "Proposal",
    "RealHead",
    "Stacked",
    "TableConditionals",
    "TruncatedNormal",
    "bent_variables",
    "build_conditionals",
    "evidence_layout",
    "exact_proposal",
    "fixed_evidence_layout",
    "gather_inputs",
    "head_for",
    "inputs_of",
    "known_given",
    "known_under",
    "log_conditionals_of",
    "log_ratios_of",
    "normal_places",
    "refuse_zeros",
    "register_family",
    "register_head",
    "relative_slices",
    "settled_variables",
    "uniform_weights",
    "without_vertices",
]
