"""Factors as a user writes them, one object each.

A factor is a positive function of a few variables; all of them are kept as logarithms, ``-inf``
for zero. A :class:`~deltaai.models.factor_graph.FactorGraph` stores them in groups of one shape
(see :mod:`deltaai.models.groups`), where they are evaluated; nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from deltaai.arguments import checked_items, is_finite
from deltaai.errors import ModelError, one_line, shown

LARGEST_SCOPE = 62  # sets of places in a scope are the bits of one integer
ArrayLike = Any  # whatever numpy.asarray or torch.as_tensor takes


def checked_scope(scope: Sequence[str]) -> tuple[str, ...]:
    """Names of a factor's variables, each once; one text is one name."""
    if isinstance(scope, str):
        scope = (scope,)
    names = checked_items("scope", scope, "names, such as ['rain', 'wet']", ModelError)
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"a factor's scope holds variable names, not {shown(name)}")
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"the scope ({', '.join(names)}) names {name!r} twice")
    if len(names) > LARGEST_SCOPE:
        raise ModelError(f"a factor has {len(names)} variables, and at most {LARGEST_SCOPE} can be")
    return names


def has_values(tensor: Tensor) -> bool:
    """Whether its entries can be looked at one by one: not those of sparse or ``meta`` tensors."""
    return tensor.layout == torch.strided and tensor.device.type != "meta"


def as_tensor(values: ArrayLike) -> Tensor:
    """A tensor of what may be an array: Python's numbers keep all their digits."""
    found = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
    if found.is_complex() or not has_values(found):
        raise TypeError("it is complex" if found.is_complex() else "it is sparse or empty")
    return found


def _as_table(values: ArrayLike, scope: tuple[str, ...]) -> Tensor:
    where = f"the table over ({', '.join(scope)})"
    try:
        if isinstance(values, Tensor):
            if values.is_complex() or not has_values(values):
                raise TypeError("it is complex" if values.is_complex() else "it is sparse or empty")
            table = values if values.is_floating_point() else values.double()
        else:
            table = torch.from_numpy(np.array(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ModelError(f"{where} is not an array of numbers: {one_line(error)}") from None
    if table.ndim != len(scope):
        raise ModelError(
            f"{where} has {table.ndim} axes for {len(scope)} variables: one axis a variable"
        )
    return table


def _logarithm(values: Tensor, scope: tuple[str, ...]) -> Tensor:
    if bool((values < 0).any()):
        raise ModelError(
            f"the table over ({', '.join(scope)}) has the negative entry {float(values.min())}: "
            "factors are positive or zero"
        )
    return values.log()


def _check_spins(scope: tuple[object, ...], strength: object) -> None:
    for name in scope:
        if not isinstance(name, str):
            raise ModelError(f"a factor's scope holds variable names, not {shown(name)}")
    # Numbers that are not finite are refused by a model, which knows the factor's place.
    if not is_finite(strength) and not isinstance(strength, float):
        where = f"the spins over ({', '.join(map(str, scope))})"
        raise ModelError(f"{where} have the strength {shown(strength)}: give a number")


@dataclass(frozen=True, eq=False, init=False)
class TableFactor:
    """A factor given by the table of its logarithms, one axis a variable of the scope.

    >>> TableFactor.from_values(["rain", "wet"], [[1.0, 0.0], [0.5, 0.5]]).log_table[0]
    tensor([0., -inf], dtype=torch.float64)
    """

    scope: tuple[str, ...]
    log_table: Tensor

    def __init__(self, scope: Sequence[str], log_table: ArrayLike) -> None:
        object.__setattr__(self, "scope", checked_scope(scope))
        object.__setattr__(self, "log_table", _as_table(log_table, self.scope))

    @classmethod
    def from_values(cls, scope: Sequence[str], values: ArrayLike) -> TableFactor:
        """Build from the factor's values themselves (zero allowed) instead of logarithms."""
        names = checked_scope(scope)
        return cls(names, _logarithm(_as_table(values, names), names))


@dataclass(frozen=True, eq=False, init=False)
class ConditionalTable:
    """The table p(child | parents) of a Bayesian network, the child's axis last.

    Rows that do not sum to one are kept as they are: files have them, and ``deltaai check`` says
    so. Use :meth:`from_log` to hand over logarithms.
    """

    scope: tuple[str, ...]
    log_table: Tensor

    def __init__(self, child: str, parents: Sequence[str], probabilities: ArrayLike) -> None:
        scope = checked_scope((*checked_scope(parents), child))
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "log_table", _logarithm(_as_table(probabilities, scope), scope))

    @classmethod
    def from_log(cls, child: str, parents: Sequence[str], log_table: ArrayLike) -> ConditionalTable:
        """Build from log-probabilities."""
        scope = checked_scope((*checked_scope(parents), child))
        made = object.__new__(cls)
        object.__setattr__(made, "scope", scope)
        object.__setattr__(made, "log_table", _as_table(log_table, scope))
        return made

    @property
    def child(self) -> str:
        """The variable this table gives the distribution of."""
        return self.scope[-1]

    @property
    def parents(self) -> tuple[str, ...]:
        """The variables it is conditioned on."""
        return self.scope[:-1]


@dataclass(frozen=True)
class SpinCoupling:
    """log φ = strength · s_first · s_second for two binary variables, s = 2x - 1."""

    first: str
    second: str
    strength: float

    def __post_init__(self) -> None:
        _check_spins(self.scope, self.strength)

    @property
    def scope(self) -> tuple[str, ...]:
        """Names of the two variables."""
        return (self.first, self.second)


@dataclass(frozen=True)
class SpinField:
    """log φ = strength · s for one binary variable, s = 2x - 1."""

    variable: str
    strength: float

    def __post_init__(self) -> None:
        _check_spins(self.scope, self.strength)

    @property
    def scope(self) -> tuple[str, ...]:
        """Name of the one variable."""
        return (self.variable,)


@dataclass(frozen=True, eq=False, init=False)
class NeuralFactor:
    """A factor whose logarithm is the output of a torch module on the encoded states.

    A variable with two states is encoded as one number, -1 or +1; one with K other states as a
    one-hot vector of length K; a real one is its value. The encodings stand side by side in the
    order of the scope, so the module maps ``(..., width)`` to ``(...)`` or ``(..., 1)``. Factors
    that use the very same module object share its parameters.
    """

    scope: tuple[str, ...]
    module: nn.Module

    def __init__(self, scope: Sequence[str], module: nn.Module) -> None:
        object.__setattr__(self, "scope", checked_scope(scope))
        if not self.scope:
            raise ModelError("a neural factor needs at least one variable in its scope")
        if not isinstance(module, nn.Module):
            raise ModelError(f"a neural factor needs a torch.nn.Module, not {shown(module)}")
        object.__setattr__(self, "module", module)


@runtime_checkable
class Factor(Protocol):
    """What all factors have; more kinds may be registered (``factor_kinds``)."""

    @property
    def scope(self) -> tuple[str, ...]:
        """Names of its variables."""
