"""Conditionals: q(x_v | what is known), in families that answer the same three questions."""

from deltaai.conditionals.base import Conditionals
from deltaai.conditionals.families import Family, build_conditionals
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.local import LocalConditionals
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.conditionals.proposal import Proposal, known_under
from deltaai.conditionals.table import TableConditionals, exact_proposal

__all__ = [
    "Conditionals",
    "Family",
    "Layout",
    "LocalConditionals",
    "MaskedAutoencoder",
    "Proposal",
    "TableConditionals",
    "build_conditionals",
    "exact_proposal",
    "known_under",
]
