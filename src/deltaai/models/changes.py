"""Changes of a model's log score by a change of one variable: for the inner loops of training.

Columns in and columns out, unchecked. Only the values that are asked for are evaluated, and only in
the factors that contain the variable. What users ask is in :class:`~deltaai.models.FactorGraph`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Columns


def log_changes(
    model: FactorGraph, columns: Columns, others: Columns
) -> Float[Tensor, "var batch"]:
    """Change of the log score when one variable takes its value in ``others``, for each alone."""
    changes = torch.zeros(columns.shape, dtype=model.dtype, device=model.device)
    for group in model.groups:
        for place in range(group.arity):
            change = group.log_changes(columns, others, place)
            changes.index_add_(0, group.scopes[:, place], change)
    return changes


def log_changes_at(
    model: FactorGraph,
    columns: Columns,
    at: Int[Tensor, "pair"],
    variable: Int[Tensor, "pair"],
    value: Num[Tensor, "pair"],
) -> Float[Tensor, "pair"]:
    """Change of the log score of some columns when one variable takes another value.

    Parameters
    ----------
    at : which column each change is of.
    variable, value : what changes, and to what.
    """
    change = torch.zeros(len(at), dtype=model.dtype, device=model.device)
    for group, incidence in zip(model.groups, model.incidences, strict=True):
        pair, factor, place = incidence.of(variable)
        if len(pair) == 0:
            continue
        values = columns[group.scopes[factor].T, at[pair]]
        before = group.log_values_at(factor, values)
        here = torch.arange(len(pair), device=model.device)
        values[place, here] = value[pair].to(values.dtype)
        after = group.log_values_at(factor, values)
        change = change.index_add(0, pair, after - before)
    return change
