"""Zeros in tables: whether there are any, how many, and a model without them to train on.

Local objectives compare states that differ in one variable, so they need a positive p. A smoothed
model gives each zero of a table φ a small value and leaves all other entries as they are:

    φ_ε(x) = φ(x) where φ(x) > 0,   else min(ε · max φ, min over φ > 0 of φ)

so no zero comes out above an entry that is possible, and no positive entry changes.

The smoothed model is another distribution: it gives impossible states some probability. It is for
training only; importance weights take the true factors. This file does not remove states that
cannot occur, which should come first: see :mod:`deltaai.models.zeros.determinism`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeGuard

import torch

from deltaai.arguments import is_finite
from deltaai.errors import ConfigError, ModelError, shown
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import FactorGroup
from deltaai.models.table_group import TableGroup


@dataclass(frozen=True)
class ZeroShare:
    """How much of a model's tables is zero; spin and neural factors have no zeros.

    Parameters
    ----------
    num_entries : entries of all tables.
    num_zeros : those that are zero.
    num_factors : factors of the model, of every kind.
    num_factors_with_zeros : tables with at least one zero.
    """

    num_entries: int
    num_zeros: int
    num_factors: int
    num_factors_with_zeros: int

    @property
    def share(self) -> float:
        """Zero entries as a share of all table entries; 0 without tables."""
        return self.num_zeros / self.num_entries if self.num_entries else 0.0


def has_zeros(model: FactorGraph) -> bool:
    """Whether a table of the model has a zero entry."""
    return any(has_zero_entries(group) for group in model.groups)


def has_zero_entries(group: FactorGroup) -> TypeGuard[TableGroup]:
    """Whether a group holds tables, and one of them has a zero entry."""
    return isinstance(group, TableGroup) and bool((group.tables == -torch.inf).any())


def zero_share(model: FactorGraph) -> ZeroShare:
    """Count the zero entries of the model's tables.

    >>> from deltaai.models.zoo import sprinkler
    >>> zero_share(sprinkler())
    ZeroShare(num_entries=18, num_zeros=1, num_factors=4, num_factors_with_zeros=1)
    """
    num_entries = num_zeros = num_factors_with_zeros = 0
    for group in model.groups:
        if not isinstance(group, TableGroup):
            continue
        is_zero = (group.tables == -torch.inf).reshape(group.num_factors, group.table_size)
        num_entries += is_zero.numel()
        num_zeros += int(is_zero.sum())
        num_factors_with_zeros += int(is_zero.any(1).sum())
    return ZeroShare(num_entries, num_zeros, model.num_factors, num_factors_with_zeros)


def smoothed(model: FactorGraph, epsilon: float | int) -> FactorGraph:
    """Give every zero entry a small positive value, so that all states are possible.

    Parameters
    ----------
    model : the target; it is not changed, and is returned itself if it has no zeros.
    epsilon : value of a zero as a share of its table's largest entry, between 0 and 1. Small
        values are closer to the model and harder to train on.

    Examples
    --------
    >>> from deltaai.models import FactorGraph, TableFactor, Variable
    >>> unless = TableFactor.from_values(["a", "b"], [[2.0, 1.0], [1.0, 0.0]])
    >>> model = FactorGraph([Variable("a"), Variable("b")], [unless])
    >>> smoothed(model, 0.01).factors[0].log_table.exp()[1]
    tensor([1.0000, 0.0200], dtype=torch.float64)
    """
    if not is_finite(epsilon) or not 0 < epsilon < 1:
        raise ConfigError(
            f"smoothing is {shown(epsilon)}, but must lie between 0 and 1, both excluded: 1e-4 is "
            "usual"
        )
    if not has_zeros(model):
        return model
    made = FactorGraph.from_groups(
        model.variables,
        [
            _smoothed_group(group, model, math.log(epsilon)) if has_zero_entries(group) else group
            for group in model.groups
        ],
    )
    made.dtype, made.device = model.dtype, model.device
    return made


def _smoothed_group(group: TableGroup, model: FactorGraph, log_epsilon: float) -> TableGroup:
    flat = group.tables.detach().reshape(group.num_factors, group.table_size)
    highest = flat.amax(1)
    if bool((highest == -torch.inf).any()):
        at = int((highest == -torch.inf).nonzero()[0])
        names = ", ".join(model.variables[v].name for v in group.scopes[at].tolist())
        raise ModelError(
            f"the factor over ({names}) is zero everywhere, so no state is possible and there is "
            "nothing to smooth: correct its table or change the evidence"
        )
    is_zero = flat == -torch.inf
    lowest = flat.masked_fill(is_zero, torch.inf).amin(1)
    floor = torch.minimum(highest + log_epsilon, lowest)
    # Entries are selected, not added to, so that learned tables stay connected to their gradients.
    tables = torch.where(
        is_zero.view_as(group.tables), floor.view(-1, *[1] * group.arity), group.tables
    )
    return replace(group, tables=tables)
