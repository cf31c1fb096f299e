"""Models of pgmpy, in memory: Bayesian and Markov networks of discrete variables, both ways.

pgmpy's tables put the child first and the last variable fastest, ours put the child last. States
and nodes that are not strings become strings. Factors are kept in their order; a factor without
variables, which pgmpy cannot hold, becomes a constant table over the first variable, and variables
in no factor get a table of ones, because pgmpy refuses them otherwise.
"""

from __future__ import annotations

import importlib
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np

from deltaai.arguments import checked_object
from deltaai.errors import ConversionError, one_line
from deltaai.io.directed import is_normalised, why_not_bayesian
from deltaai.io.flat_tables import PositiveTable, positive_tables
from deltaai.io.states_only import refuse_real
from deltaai.models import ConditionalTable, FactorGraph, TableFactor, Variable

PgmpyModel = Any  # a DiscreteBayesianNetwork or DiscreteMarkovNetwork; pgmpy is not required


def from_pgmpy(model: PgmpyModel) -> FactorGraph:
    """Convert a pgmpy Bayesian or Markov network.

    Raises
    ------
    ConversionError
        For any other object, or a network that pgmpy itself finds incomplete.
    """
    models = _pgmpy("models")
    is_bayesian = isinstance(model, models.DiscreteBayesianNetwork)
    if not is_bayesian and not isinstance(model, _markov_network_class(models)):
        raise ConversionError(
            f"expected pgmpy's DiscreteBayesianNetwork or DiscreteMarkovNetwork, not "
            f"{type(model).__module__}.{type(model).__name__}"
        )
    try:
        model.check_model()
    except Exception as error:  # pgmpy raises whatever it stumbles over in a broken network
        raise ConversionError(f"pgmpy finds the network incomplete: {one_line(error)}") from error
    tables = model.get_cpds() if is_bayesian else model.get_factors()
    states = _states_of(tables)
    if missing := [str(node) for node in model.nodes() if node not in states]:
        raise ConversionError(f"no table of the pgmpy network tells the states of {missing[0]!r}")
    variables = [Variable(str(node), [str(s) for s in states[node]]) for node in model.nodes()]
    factors: list[ConditionalTable | TableFactor] = []
    for table in tables:
        scope, values = [str(node) for node in table.variables], np.asarray(table.values)
        if is_bayesian:
            factors.append(ConditionalTable(scope[0], scope[1:], np.moveaxis(values, 0, -1)))
        else:
            factors.append(TableFactor.from_values(scope, values))
    return FactorGraph(variables, factors)


def to_pgmpy(model: FactorGraph) -> PgmpyModel:
    """Convert to a pgmpy network.

    It is a ``DiscreteBayesianNetwork`` if the model is one (one conditional table a variable, no
    cycle, rows that sum to one), else a ``DiscreteMarkovNetwork``.
    """
    checked_object("model", model, FactorGraph, "read gives one", ConversionError)
    refuse_real(model, "a pgmpy network")
    models, discrete = _pgmpy("models"), _pgmpy("factors.discrete")
    tables = positive_tables(model)
    names = [variable.name for variable in model.variables]
    states = {variable.name: list(variable.states) for variable in model.variables}

    def arguments(scope: tuple[int, ...]) -> dict[str, Any]:
        return {"state_names": {names[v]: states[names[v]] for v in scope}}

    if why_not_bayesian(model) is None and is_normalised(model):
        made = models.DiscreteBayesianNetwork()
        made.add_nodes_from(names)
        for scope, values in tables:
            *parents, child = scope
            made.add_edges_from([(names[parent], names[child]) for parent in parents])
            given = {
                "evidence": [names[parent] for parent in parents],
                "evidence_card": list(values.shape[:-1]),
            }
            cpd = discrete.TabularCPD(
                names[child],
                values.shape[-1],
                values.reshape(-1, values.shape[-1]).T,
                **(given if parents else {}),
                **arguments(scope),
            )
            made.add_cpds(cpd)
        return made
    made = _markov_network_class(models)()
    made.add_nodes_from(names)
    covered = {v for scope, _ in tables for v in scope}
    ones = [
        PositiveTable((v,), np.ones(model.variables[v].num_states))
        for v in range(model.num_variables)
        if v not in covered
    ]
    for scope, values in (*tables, *ones):
        made.add_edges_from([(names[a], names[b]) for a, b in combinations(scope, 2)])
        made.add_factors(
            discrete.DiscreteFactor(
                [names[v] for v in scope], list(values.shape), values, **arguments(scope)
            )
        )
    return made


def _states_of(tables: list[Any]) -> dict[Any, list[Any]]:
    """States of each node, on which all tables must agree."""
    states: dict[Any, list[Any]] = {}
    for table in tables:
        for node in table.variables:
            listed = list(table.state_names[node])
            if states.setdefault(node, listed) != listed:
                raise ConversionError(
                    f"two tables of the pgmpy network differ about the states of {str(node)!r}: "
                    f"{states[node]} and {listed}; give all of them the same state_names"
                )
    return states


def _markov_network_class(models: ModuleType) -> type[Any]:
    known: type[Any] | None = getattr(models, "DiscreteMarkovNetwork", None)
    return models.MarkovNetwork if known is None else known


def _pgmpy(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"pgmpy.{module}")
    except ImportError as error:
        raise ConversionError(
            f"pgmpy cannot be imported ({error}); install it with `pip install deltaai[convert]`"
        ) from error
