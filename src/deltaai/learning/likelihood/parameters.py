"""Which tensors of a model learn: turning constants into parameters, and back.

Tables and strengths of spins are constants until somebody says otherwise; the weights of neural
factors are parameters from the start. Both calls give a new model and leave the old one alone.

Conditional tables become plain ones: while they learn, nothing keeps their rows normalised. Tables
with zeros are refused, as the gradient of a logarithm that is minus infinity is none.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from deltaai.arguments import checked_object
from deltaai.errors import ModelError
from deltaai.models import FactorGraph, FactorGroup, SpinGroup, TableGroup, has_zeros


def learnable(model: FactorGraph) -> FactorGraph:
    """Return the model with tables and spins that a learner may change.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    >>> [tuple(value.shape) for value in learnable(model).parameters()]
    [(4,), (4,)]
    >>> list(model.parameters())
    []
    """
    remedy = "give one, or read it from a file"
    checked_object("model", model, FactorGraph, remedy, ModelError)
    if has_zeros(model):
        raise ModelError(
            "a table of the model has zeros, whose logarithms cannot learn: give the zeros a small "
            "value first, such as 1e-3 of the largest entry (deltaai.models.smoothed)"
        )
    return FactorGraph.from_groups(model.variables, [_learnable(g) for g in model.groups])


def plain(model: FactorGraph) -> FactorGraph:
    """Return the model with the values it has now and no parameters."""
    found = model.to()
    for parameter in list(found.parameters()):
        parameter.requires_grad_(False)
    return found


def _learnable(group: FactorGroup) -> FactorGroup:
    if isinstance(group, SpinGroup):
        return replace(group, strengths=_parameter(group.strengths))
    if isinstance(group, TableGroup):
        return TableGroup(group.ids, group.scopes, _parameter(group.tables))
    return group.to(None, None)


def _parameter(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_(True)
