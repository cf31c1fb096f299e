"""Models: variables, factors in groups of one shape, factor graphs, and a zoo of them."""

from deltaai.models.evidence import Evidence
from deltaai.models.factor_graph import FactorGraph, States
from deltaai.models.factors import (
    ConditionalTable,
    Factor,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
)
from deltaai.models.variable import StateIndex, Variable

__all__ = [
    "ConditionalTable",
    "Evidence",
    "Factor",
    "FactorGraph",
    "NeuralFactor",
    "SpinCoupling",
    "SpinField",
    "StateIndex",
    "States",
    "TableFactor",
    "Variable",
]
