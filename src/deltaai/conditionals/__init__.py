"""Conditionals: q(x_v | what is known), in families that answer the same three questions."""

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.dense import DenseLayers, uniform_weights
from deltaai.conditionals.encoding import Encoding
from deltaai.conditionals.evidence import (
    MOST_CONTEXT,
    Observed,
    evidence_layout,
    fixed_evidence_layout,
    known_given,
    without_vertices,
)
from deltaai.conditionals.families import Family, build_conditionals
from deltaai.conditionals.folded import LARGEST_ARITY, fold
from deltaai.conditionals.informed import relative_slices
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.local import LocalConditionals
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.conditionals.proposal import (
    Proposal,
    known_under,
    log_conditionals_of,
    log_softmax_at,
    logits_of_block,
    refuse_zeros,
    with_first,
)
from deltaai.conditionals.table import TableConditionals, exact_proposal

__all__ = [
    "LARGEST_ARITY",
    "MOST_CONTEXT",
    "Conditionals",
    "DenseLayers",
    "Encoding",
    "Family",
    "Known",
    "Layout",
    "LocalConditionals",
    "MaskedAutoencoder",
    "Observed",
    "Proposal",
    "TableConditionals",
    "build_conditionals",
    "evidence_layout",
    "exact_proposal",
    "fixed_evidence_layout",
    "fold",
    "known_given",
    "known_under",
    "log_conditionals_of",
    "log_softmax_at",
    "logits_of_block",
    "refuse_zeros",
    "relative_slices",
    "uniform_weights",
    "with_first",
    "without_vertices",
]
