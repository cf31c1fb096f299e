"""A model without the variables whose states are known: tables are cut where they are observed.

Scores are kept: the log score of what is left is the full model's with the known states filled in.
Names and labels are resolved before (:mod:`deltaai.models.evidence`); here all are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from deltaai.errors import ImpossibleEvidenceError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Clamp, FactorGroup
from deltaai.models.table_group import TableGroup


def conditioned(model: FactorGraph, observed: Mapping[int, int | float]) -> FactorGraph:
    """The model of the remaining variables; itself if nothing is observed.

    Parameters
    ----------
    observed : observed variables and their states.

    Raises
    ------
    ImpossibleEvidenceError
        If a factor is zero at all that is left of it.
    """
    if not observed:
        return model
    dtype = torch.long if model.is_discrete else torch.float64
    values = torch.full((model.num_variables,), -1, dtype=dtype, device=model.device)
    values[list(observed)] = torch.tensor(list(observed.values()), device=model.device, dtype=dtype)
    stays = torch.ones(model.num_variables, dtype=torch.bool, device=model.device)
    stays[list(observed)] = False
    clamp = Clamp(values, torch.where(stays, stays.cumsum(0) - 1, -1))
    remaining = [part for group in model.groups for part in group.condition(clamp)]
    kept = [v for v in range(model.num_variables) if v not in observed]
    _refuse_impossible(remaining, model, observed)
    reduced = FactorGraph.from_groups([model.variables[v] for v in kept], remaining)
    reduced.dtype, reduced.device = model.dtype, model.device
    return reduced


def _refuse_impossible(
    groups: Sequence[FactorGroup], model: FactorGraph, observed: Mapping[int, int | float]
) -> None:
    """Say which factor the evidence makes zero, if one is."""
    for group in groups:
        if not isinstance(group, TableGroup):
            continue
        is_zero = (group.tables.flatten(1) if group.arity else group.tables[:, None]) == -torch.inf
        is_dead = is_zero.all(1)
        if bool(is_dead.any()):
            culprit = model.factors[int(group.ids[is_dead][0])]
            blamed = ", ".join(
                f"{name}={model.variables[v].text_of(observed[v])}"
                for name in culprit.scope
                if (v := model.index(name)) in observed
            )
            raise ImpossibleEvidenceError(
                f"the evidence has probability zero: {blamed} is impossible under the factor over "
                f"({', '.join(culprit.scope)})"
            )
