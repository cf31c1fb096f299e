"""Models of pyAgrum, in memory: Bayesian networks and Markov random fields, both ways.

A pyAgrum tensor's first variable is fastest, and as a numpy array its axes stand in the opposite
order of its names; so a scope here is the tensor's names read backwards, and no entry has to move.
A Markov random field holds one factor for each set of variables: several over the same variables
are multiplied. A factor without variables becomes a constant table over the first variable, and
variables in no factor get a table of ones, without which pyAgrum's inference fails.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from deltaai.arguments import checked_object
from deltaai.errors import ConversionError
from deltaai.io.decimals import exponentials, logarithms
from deltaai.io.directed import is_normalised, why_not_bayesian
from deltaai.io.flat_tables import PositiveTable, positive_tables
from deltaai.io.source import encoded
from deltaai.io.states_only import refuse_real
from deltaai.models import ConditionalTable, FactorGraph, TableFactor, Variable

PyAgrumModel = Any  # a BayesNet or MarkovRandomField; pyAgrum is not required


def from_pyagrum(model: PyAgrumModel) -> FactorGraph:
    """Convert a pyAgrum Bayesian network or Markov random field.

    Raises
    ------
    ConversionError
        For any other object.
    """
    gum = _pyagrum()
    if not isinstance(model, gum.BayesNet | gum.MarkovRandomField):
        raise ConversionError(
            f"expected pyAgrum's BayesNet or MarkovRandomField, not "
            f"{type(model).__module__}.{type(model).__name__}"
        )
    nodes = sorted(model.nodes())
    variables = [
        Variable(
            model.variable(node).name(), [str(label) for label in model.variable(node).labels()]
        )
        for node in nodes
    ]
    factors: list[ConditionalTable | TableFactor] = []
    if isinstance(model, gum.BayesNet):
        for node in nodes:
            *parents, child = model.cpt(node).names[::-1]
            factors.append(ConditionalTable(child, parents, model.cpt(node).toarray()))
    else:
        for scope in sorted(sorted(scope) for scope in model.factors()):
            factor = model.factor(set(scope))
            factors.append(TableFactor.from_values(factor.names[::-1], factor.toarray()))
    return FactorGraph(variables, factors)


def to_pyagrum(model: FactorGraph) -> PyAgrumModel:
    """Convert to a pyAgrum model.

    It is a ``BayesNet`` if the model is one (one conditional table a variable, no cycle, rows that
    sum to one), else a ``MarkovRandomField``.
    """
    checked_object("model", model, FactorGraph, "read gives one", ConversionError)
    refuse_real(model, "a pyAgrum model")
    gum = _pyagrum()
    tables = positive_tables(model)
    is_bayesian = why_not_bayesian(model) is None and is_normalised(model)
    made = gum.BayesNet() if is_bayesian else gum.MarkovRandomField()
    for variable in model.variables:
        encoded(variable.name + "".join(variable.states))  # others end the process in pyAgrum
        made.add(gum.LabelizedVariable(variable.name, variable.name, list(variable.states)))
    names = [variable.name for variable in model.variables]
    if is_bayesian:
        for scope, values in tables:
            *parents, child = scope
            for parent in reversed(parents):
                made.addArc(names[parent], names[child])
            made.cpt(names[child]).fillWith(values.ravel().tolist())
        return made
    for scope, values in _one_a_scope(model, tables):
        tensor = gum.Tensor()
        for v in reversed(scope):
            tensor.add(made.variable(names[v]))
        made.addFactor(tensor.fillWith(values.ravel().tolist()))
    return made


def _one_a_scope(model: FactorGraph, tables: list[PositiveTable]) -> list[PositiveTable]:
    """Multiply tables over the same variables, and give the others a table of ones."""
    together: dict[frozenset[int], list[PositiveTable]] = {}
    for table in tables:
        together.setdefault(frozenset(table.scope), []).append(table)
    merged = []
    for first, *others in together.values():
        log_product = logarithms(first.values)
        for other in others:
            axes = [other.scope.index(v) for v in first.scope]
            log_product = log_product + logarithms(other.values.transpose(axes))
        values = exponentials(log_product) if others else first.values
        merged.append(PositiveTable(first.scope, values))
    covered = {v for table in tables for v in table.scope}
    for v, variable in enumerate(model.variables):
        if v not in covered:
            merged.append(PositiveTable((v,), np.ones(variable.num_states)))
    return merged


def _pyagrum() -> ModuleType:
    try:
        return importlib.import_module("pyagrum")
    except ImportError as error:
        raise ConversionError(
            f"pyAgrum cannot be imported ({error}); install it with `pip install deltaai[convert]`"
        ) from error
