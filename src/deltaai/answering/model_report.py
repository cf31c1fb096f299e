"""A look at a model before trusting it: its size, its structure, and what seems odd."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from deltaai.answering.planning import Plan, plan_within
from deltaai.budget import Budget
from deltaai.io import as_model
from deltaai.models import ConditionalTableGroup, FactorGraph, TableGroup

# A row of a conditional table may miss one by this much before it is called suspicious.
ROW_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ModelReport:
    """Figures about a model, and warnings about what a user may not have meant."""

    num_variables: int
    num_real: int
    most_states: int
    num_factors: int
    num_conditional_tables: int
    largest_scope: int
    num_entries: int
    num_zeros: int
    num_edges: int
    num_components: int
    plan: Plan
    warnings: tuple[str, ...]


def check(
    model: FactorGraph | str | Path,
    *,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
) -> ModelReport:
    """Describe a model and say what is suspicious about it.

    Parameters
    ----------
    model : the target, or the path of a file with one.
    memory_limit : bytes an answer may use, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds the report may take, from the call on, and an answer.
    """
    budget = Budget.of(memory_limit, time_limit)
    with budget.watched(f"the model in {model}" if isinstance(model, str | Path) else "it"):
        found = as_model(model)
    return check_within(budget, found)


def check_within(budget: Budget, model: FactorGraph) -> ModelReport:
    """Describe a model like :func:`check`, by a clock that runs already."""
    with budget.watched("the report"):
        return _checked(budget, model)


def _checked(budget: Budget, model: FactorGraph) -> ModelReport:
    graph = model.markov_graph()
    entries = zeros = conditionals = 0
    for group in model.groups:
        entries += group.num_factors * group.table_size if group.has_tables else 0
        conditionals += group.num_factors if isinstance(group, ConditionalTableGroup) else 0
        if isinstance(group, TableGroup):
            zeros += int((group.tables == -math.inf).sum())
    return ModelReport(
        num_variables=model.num_variables,
        num_real=sum(variable.is_real for variable in model.variables),
        most_states=max((v.num_states for v in model.variables), default=0),
        num_factors=model.num_factors,
        num_conditional_tables=conditionals,
        largest_scope=max((group.arity for group in model.groups), default=0),
        num_entries=entries,
        num_zeros=zeros,
        num_edges=graph.num_edges,
        num_components=len(graph.components()),
        plan=plan_within(budget, model),
        warnings=(
            *unnormalised_tables(model),
            *_not_a_network(model, conditionals),
            *_unused_variables(model),
            *_single_states(model),
            *_constants(model),
        ),
    )


def unnormalised_tables(model: FactorGraph) -> list[str]:
    """Say which conditional tables have rows that do not sum to one, in one sentence if any."""
    found = []
    worst, where = 0.0, ""
    for group in model.groups:
        if not isinstance(group, ConditionalTableGroup):
            continue
        off = (group.tables.exp().sum(-1) - 1).abs().reshape(group.num_factors, -1).amax(1)
        for position in (off > ROW_TOLERANCE).nonzero().squeeze(1).tolist():
            child = model.variables[int(group.scopes[position, -1])].name
            found.append(child)
            if float(off[position]) > worst:
                worst, where = float(off[position]), child
    if not found:
        return []
    return [
        f"{_some(found)}: rows of the conditional table do not sum to one "
        f"(worst: {where!r}, off by {worst:.3g})"
    ]


def _not_a_network(model: FactorGraph, num_conditionals: int) -> list[str]:
    """Conditional tables that do not form a Bayesian network: two for one child, or a mixture."""
    if num_conditionals == 0:
        return []
    children = [
        model.variables[child].name
        for group in model.groups
        if isinstance(group, ConditionalTableGroup)
        for child in group.scopes[:, -1].tolist()
    ]
    double = sorted(name for name, count in Counter(children).items() if count > 1)
    return [f"{_some(double)}: more than one conditional table"] if double else []


def _unused_variables(model: FactorGraph) -> list[str]:
    used = torch.zeros(model.num_variables, dtype=torch.bool, device=model.device)
    for group in model.groups:
        used[group.scopes.reshape(-1)] = True
    unused = [model.variables[v] for v in (~used).nonzero().squeeze(1).tolist()]
    unbounded = [v.name for v in unused if v.support is not None and not v.support.is_box]
    uniform = [v.name for v in unused if v.name not in set(unbounded)]
    return [
        *([f"{_some(uniform)}: in no factor, so uniform"] if uniform else []),
        *(
            [f"{_some(unbounded)}: in no factor, so the density does not integrate"]
            if unbounded
            else []
        ),
    ]


def _single_states(model: FactorGraph) -> list[str]:
    single = [variable.name for variable in model.variables if variable.num_states == 1]
    return [f"{_some(single)}: only one state"] if single else []


def _constants(model: FactorGraph) -> list[str]:
    """Factors that say nothing: the same value everywhere."""
    count = 0
    for group in model.groups:
        if isinstance(group, TableGroup) and group.table_size > 1:
            flat = group.tables.reshape(group.num_factors, -1)
            count += int((flat.amax(1) == flat.amin(1)).sum())
    noun = "factor has" if count == 1 else "factors have"
    return [f"{count} {noun} the same value everywhere"] if count else []


def _some(names: list[str], most: int = 4) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"
