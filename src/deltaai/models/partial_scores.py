"""Log scores of partial samples, for forward-looking flows (equation key ``partial-energy``).

For a sample x whose variables are filled in one by one, log R~ after each step, in two ways:

- ``"completed"``: the sum of the log-factors all of whose variables are set;
- ``"zero-filled"``: the sum of all log-factors, with zeros as the inputs of missing variables.
  Factors over spins and neural factors take such inputs as they are; in a table a missing
  variable is the mean over its states, which is the same thing for spins. Factors over states and
  real values together count when they are completed.

Either way a factor changes its value at most once for each of its variables, so all steps of all
samples follow from a few look-ups a factor and one cumulative sum.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Columns, FactorGroup
from deltaai.models.table_group import strides_of

PartialEnergy = Literal["completed", "zero-filled"]


def partial_log_scores(
    model: FactorGraph,
    columns: Columns,
    ranks: Columns,
    kind: PartialEnergy,
) -> Float[Tensor, "step batch"]:
    """Log R~ of each sample after its first 0, 1, ..., n variables are set.

    Parameters
    ----------
    model : the target.
    columns : full samples.
    ranks : place of each variable in its sample's order.
    kind : what to do with missing variables.
    """
    num_variables, batch = columns.shape
    changes = torch.zeros(num_variables + 1, batch, dtype=model.dtype, device=columns.device)
    for group in model.groups:
        if kind == "completed" or group.arity == 0 or _is_mixed(group):
            _add_completed(changes, group, columns, ranks)
        elif not group.has_tables:
            _add_with_zeros(changes, group, columns, ranks)
        else:
            _add_zero_filled(changes, group, columns, ranks)
    return changes.cumsum(0)


def _is_mixed(group: FactorGroup) -> bool:
    """Whether its scopes have states and real values."""
    return not group.has_tables and any(group.sizes)


def _add_with_zeros(changes: Tensor, group: FactorGroup, columns: Tensor, ranks: Tensor) -> None:
    """Factors of real variables change at every step that sets one of them; zero stands before."""
    num_factors, arity, batch = group.num_factors, group.arity, columns.shape[1]
    values, places = group.scope_values(columns), group.scope_values(ranks)
    by_rank = places.argsort(0)
    every = torch.arange(num_factors, device=columns.device).repeat_interleave(batch)
    before = None
    for number in range(arity + 1):  # with the first so many of its variables set
        is_set = by_rank.argsort(0) < number
        filled = values.where(is_set, 0.0).reshape(arity, -1)
        value = group.log_values_at(every, filled).view(num_factors, batch)
        step = torch.zeros_like(places[0], dtype=torch.long)
        if number:
            step = places.gather(0, by_rank[number - 1][None])[0].long() + 1
        changes.scatter_add_(0, step, value if before is None else value - before)
        before = value


def _add_completed(changes: Tensor, group: FactorGroup, columns: Tensor, ranks: Tensor) -> None:
    """Each factor counts from the step on at which the last of its variables is set."""
    values = group.log_values(columns)
    last = torch.zeros(values.shape, dtype=torch.long, device=values.device)
    if group.arity:
        last = group.scope_values(ranks).amax(0).long() + 1
    changes.scatter_add_(0, last, values)


def _add_zero_filled(changes: Tensor, group: FactorGroup, columns: Tensor, ranks: Tensor) -> None:
    """Each factor changes at every step that sets one of its variables."""
    tables = group.log_tables_with_missing()
    strides, flat = strides_of(tables.shape[1:]), tables.flatten(1)
    states, places = group.scope_values(columns).long(), group.scope_values(ranks)
    missing = torch.tensor(group.sizes, dtype=torch.long, device=states.device)[:, None, None]
    by_rank = places.argsort(0)
    before = None
    for number in range(group.arity + 1):  # with the first so many of its variables set
        is_set = by_rank.argsort(0) < number
        index = sum(
            stride * value
            for stride, value in zip(strides, states.where(is_set, missing), strict=True)
        )
        value = flat.gather(1, torch.as_tensor(index, dtype=torch.long, device=states.device))
        step = torch.zeros_like(states[0])
        if number:
            step = places.gather(0, by_rank[number - 1][None])[0].long() + 1
        changes.scatter_add_(0, step, value if before is None else value - before)
        before = value
