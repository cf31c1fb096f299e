"""A model under suppositions: variables that are set from outside, and uncertain observations.

Setting x (Pearl's do-operator) takes away the table by which x was chosen and leaves the others,

    p(rest | do(x)) = Π_v≠x p(v | parents of v)    at the x that was set,

which is not conditioning: what causes x is not learned from it. An uncertain observation of x is a
likelihood λ(x) of what was seen at each of its states: one more factor. Both are models like any
other, so every way to an answer is one for them, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from deltaai.arguments import checked_object
from deltaai.errors import EvidenceError, ModelError, shown
from deltaai.models.conditioning import conditioned
from deltaai.models.evidence import Evidence
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.factors import ConditionalTable
from deltaai.models.table_group import TableGroup

Likelihood = Mapping[str, Any]  # numbers in the order of the states, or by their labels


def with_likelihoods(model: FactorGraph, likelihood: Likelihood) -> FactorGraph:
    """The model with uncertain observations: log Z is then the log of their mean likelihood.

    Parameters
    ----------
    model : the target.
    likelihood : of each variable that was observed with uncertainty, how likely what was seen is at
        each state: numbers in the order of the states, or by label (those left out are 0).

    Examples
    --------
    >>> from deltaai.exact import exact
    >>> from deltaai.models import zoo
    >>> seen = with_likelihoods(zoo.sprinkler(), {"wet_grass": {"yes": 0.9, "no": 0.2}})
    >>> exact(seen).marginals()["rain"].round(3)
    array([0.356, 0.644])
    """
    _check_model(model)
    if not isinstance(likelihood, Mapping):
        raise EvidenceError(
            f"likelihood is {shown(likelihood)}: give names and numbers, such as "
            "{'rain': {'yes': 0.9, 'no': 0.2}}"
        )
    groups, first = list(model.groups), model.num_factors
    for number, (name, given) in enumerate(likelihood.items()):
        variable = model.index(name)
        values = torch.tensor(_numbers(model, variable, given), dtype=torch.float64, device="cpu")
        ids = torch.tensor([first + number], dtype=torch.long, device=model.device)
        scope = torch.tensor([[variable]], dtype=torch.long, device=model.device)
        table = values.log().to(model.dtype).to(model.device)[None]
        groups.append(TableGroup(ids, scope, table))
    if not likelihood:
        return model
    found = FactorGraph.from_groups(model.variables, groups)
    found.dtype, found.device = model.dtype, model.device
    return found


def set_free(model: FactorGraph, names: Sequence[str]) -> FactorGraph:
    """The model without the tables by which some variables are chosen: to be set from outside.

    Parameters
    ----------
    model : all of whose factors about these variables are conditional tables.
    names : the variables.
    """
    wanted = {model.variables[model.index(name)].name for name in names}
    kept, found = [], set[str]()
    for factor in model.factors:
        about = wanted.intersection(factor.scope)
        if not about:
            kept.append(factor)
        elif not isinstance(factor, ConditionalTable):
            raise ModelError(
                f"{min(about)!r} cannot be set from outside: the factor over "
                f"({', '.join(factor.scope)}) has no direction, and interventions are for directed "
                "models; observe it instead"
            )
        elif factor.child in about:
            found.add(factor.child)
        else:
            kept.append(factor)
    if wanted - found:
        raise ModelError(
            f"{min(wanted - found)!r} cannot be set from outside: it has no conditional table, and "
            "interventions are for directed models; observe it instead"
        )
    freed = FactorGraph(model.variables, kept)
    freed.dtype, freed.device = model.dtype, model.device
    return freed


def intervened(model: FactorGraph, do: Evidence) -> FactorGraph:
    """The model of all other variables when some are set from outside: p(others | do(these)).

    Parameters
    ----------
    model : a Bayesian network, as far as these variables go.
    do : names to labels or state indices.

    Examples
    --------
    >>> from deltaai.exact import exact
    >>> from deltaai.models import zoo
    >>> wet = intervened(zoo.sprinkler(), {"wet_grass": "yes"})  # a bucket of water
    >>> exact(wet).marginals()["rain"]
    array([0.5, 0.5])
    """
    _check_model(model)
    states = model.resolve_evidence(do)
    freed = set_free(model, [model.variables[number].name for number in states])
    return conditioned(freed, states) if states else model


def _check_model(model: object) -> None:
    checked_object(
        "model", model, FactorGraph, "give a FactorGraph, such as read gives", ModelError
    )


def _numbers(model: FactorGraph, number: int, given: object) -> list[float]:
    """The likelihoods of a variable's states, in their order, checked."""
    variable = model.variables[number]
    if variable.is_real:
        raise EvidenceError(
            f"{variable.name!r} is real: a likelihood of it is a factor, such as GaussianFactor"
        )
    count = variable.num_states
    wanted = f"give {count} numbers, one a state, or a mapping of states to numbers"
    if isinstance(given, Mapping):
        named: dict[int, float] = {}
        for state, value in given.items():
            place = int(variable.value_of(state))
            if place in named:
                raise EvidenceError(
                    f"the likelihood of {variable.name!r} names {variable.text_of(place)!r} twice"
                )
            named[place] = _number(variable.name, value)
        values = [named.get(place, 0.0) for place in range(count)]
    else:
        listed = given.tolist() if hasattr(given, "tolist") else given
        if not isinstance(listed, list | tuple) or len(listed) != count:
            raise EvidenceError(f"the likelihood of {variable.name!r} is {shown(given)}: {wanted}")
        values = [_number(variable.name, value) for value in listed]
    if not any(values):
        raise EvidenceError(f"the likelihood of {variable.name!r} is zero at every state: {wanted}")
    return values


def _number(name: str, value: object) -> float:
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, str | bool) or not (0 <= found < math.inf):
        raise EvidenceError(
            f"the likelihood of {name!r} holds {shown(value)}: likelihoods are numbers from 0 on"
        )
    return found
