"""The kinds of factors: from the class that a user writes to the group that evaluates many.

A new kind is a class with a ``scope``, a subclass of
:class:`~deltaai.models.groups.FactorGroup` that evaluates all of one shape together, and one line
here; a user adds one with :func:`register_factor`. A kind says two things: which factors go
together, and how those become a group. Everything that can be wrong with a factor alone is found
here, with the factor named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.arguments import is_finite
from deltaai.errors import ConfigError, ModelError, shown
from deltaai.models.factors import (
    ConditionalTable,
    Factor,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
)
from deltaai.models.function_group import FunctionFactor, FunctionGroup
from deltaai.models.groups import FactorGroup
from deltaai.models.module_settings import module_key
from deltaai.models.neural_group import NeuralGroup
from deltaai.models.quadratic_factors import MixtureFactor, QuadraticFactor
from deltaai.models.quadratic_group import MixtureGroup, QuadraticGroup
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.registry import checked_callable

LARGEST_LOG = 1e12  # beyond, a double has no digits left for what is added to a logarithm


@dataclass(frozen=True, eq=False)
class AlikeFactors:
    """Factors of one kind and shape, about to become a group.

    Parameters
    ----------
    ids, scopes : as the group has them.
    sizes : number of states at each place of the scope.
    factors : the factors, in the same order.
    dtype : type of the group's values.
    """

    ids: Int[Tensor, "factor"]
    scopes: Int[Tensor, "factor arity"]
    sizes: tuple[int, ...]
    factors: Sequence[Any]
    dtype: torch.dtype


GroupBuilder = Callable[[AlikeFactors], FactorGroup]
# From a factor, the numbers of states in its scope, and how messages name it.
FactorCheck = Callable[[Any, tuple[int, ...], str], Hashable]


@dataclass(frozen=True)
class FactorKind:
    """What becomes of factors of a class.

    Parameters
    ----------
    build : makes the group.
    check : refuses a factor that cannot be; what it returns must agree for factors to go together,
        besides their class and the numbers of states.
    """

    build: GroupBuilder
    check: FactorCheck | None = None

    def key(self, factor: Factor, sizes: tuple[int, ...], where: str) -> Hashable:
        """Factors with the same key go together."""
        further = None if self.check is None else self.check(factor, sizes, where)
        return (type(factor), sizes, further)


def describe(position: int, factor: Factor) -> str:
    """Name a factor in an error message."""
    return f"factor {position} over ({', '.join(map(str, factor.scope))})"


def _check_table(
    factor: TableFactor | ConditionalTable, sizes: tuple[int, ...], where: str
) -> None:
    if 0 in sizes:
        raise ModelError(
            f"{where}: a table is for variables with states, and one of these is real: give a "
            "QuadraticFactor, a NeuralFactor or a FunctionFactor"
        )
    if tuple(factor.log_table.shape) != sizes:
        raise ModelError(
            f"{where}: its table has shape {tuple(factor.log_table.shape)}, but the variables have "
            f"{sizes} states"
        )


def _check_spins(factor: SpinCoupling | SpinField, sizes: tuple[int, ...], where: str) -> None:
    if any(size != 2 for size in sizes):
        raise ModelError(f"{where}: spins need variables with 2 states, not {sizes}")
    if not is_finite(factor.strength) or abs(factor.strength) > LARGEST_LOG:
        raise ModelError(
            f"{where}: its strength is {shown(factor.strength)}, not a number up to 1e12"
        )
    if len(set(factor.scope)) != len(factor.scope):
        raise ModelError(f"{where} couples a variable to itself")


def _check_quadratic(
    factor: QuadraticFactor | MixtureFactor, sizes: tuple[int, ...], where: str
) -> Hashable:
    parts = factor.components if isinstance(factor, MixtureFactor) else (factor,)
    count, states = sizes.count(0), tuple(size for size in sizes if size)
    shape = tuple(parts[0].precision.shape)
    if not count:
        raise ModelError(
            f"{where}: no variable of it is real, so it is a table: give a TableFactor"
        )
    if shape != (*states, count, count):
        raise ModelError(
            f"{where}: its precision has shape {shape}, and its variables want "
            f"{(*states, count, count)}: {count} real coordinates"
            + (f", and states before them, {states}" if states else "")
        )
    largest = max(float(t.detach().abs().amax()) for p in parts for t in (p.precision, p.shift))
    if largest > LARGEST_LOG:
        raise ModelError(f"{where} has an entry of {largest:g}, beyond {LARGEST_LOG:g}")
    return len(parts)


def _function(factor: FunctionFactor, sizes: tuple[int, ...], where: str) -> Hashable:
    return factor.function


def _architecture(factor: NeuralFactor, sizes: tuple[int, ...], where: str) -> Hashable:
    return module_key(factor.module)


def _tables(kind: type[TableGroup], alike: AlikeFactors) -> FactorGroup:
    tables = _stacked([factor.log_table for factor in alike.factors], alike.dtype)
    check_tables(tables, alike.factors, alike.ids.tolist())
    return kind(alike.ids, alike.scopes, tables)


def _spins(alike: AlikeFactors) -> FactorGroup:
    strengths = torch.tensor([f.strength for f in alike.factors], dtype=alike.dtype, device="cpu")
    return SpinGroup(alike.ids, alike.scopes, strengths)


def _networks(alike: AlikeFactors) -> FactorGroup:
    modules = [factor.module for factor in alike.factors]
    return NeuralGroup.build(alike.ids, alike.scopes, alike.sizes, modules, alike.dtype)


def _quadratic(alike: AlikeFactors) -> QuadraticGroup:
    parts = [
        _stacked([getattr(factor, name) for factor in alike.factors], alike.dtype)
        for name in ("precision", "shift", "constant")
    ]
    return QuadraticGroup(alike.ids, alike.scopes, alike.sizes, *parts)


def _mixtures(alike: AlikeFactors) -> FactorGroup:
    components = [part for factor in alike.factors for part in factor.components]
    count = len(alike.factors[0].components)
    ids, scopes = (value.repeat_interleave(count, 0) for value in (alike.ids, alike.scopes))
    base = _quadratic(AlikeFactors(ids, scopes, alike.sizes, components, alike.dtype))
    return MixtureGroup(alike.ids, alike.scopes, base, count)


def _functions(alike: AlikeFactors) -> FactorGroup:
    function = alike.factors[0].function
    return FunctionGroup(alike.ids, alike.scopes, alike.sizes, function, alike.dtype)


FACTOR_KINDS: dict[type, FactorKind] = {
    TableFactor: FactorKind(lambda alike: _tables(TableGroup, alike), _check_table),
    ConditionalTable: FactorKind(lambda alike: _tables(ConditionalTableGroup, alike), _check_table),
    SpinCoupling: FactorKind(_spins, _check_spins),
    SpinField: FactorKind(_spins, _check_spins),
    NeuralFactor: FactorKind(_networks, _architecture),
    QuadraticFactor: FactorKind(_quadratic, _check_quadratic),
    MixtureFactor: FactorKind(_mixtures, _check_quadratic),
    FunctionFactor: FactorKind(_functions, _function),
}


def register_factor(
    kind: type, build: GroupBuilder, check: FactorCheck | None = None, *, replace: bool = False
) -> None:
    """Make the objects of a class factors that a model takes.

    Parameters
    ----------
    kind : the class; its objects have a ``scope``, the names of their variables.
    build, check : see :class:`FactorKind`.
    replace : whether the class may have been registered before.
    """
    if not isinstance(kind, type):
        raise ConfigError(f"a kind of factor is a class, not {shown(kind)}")
    checked_callable("the builder of a kind of factor", build, "(alike)")
    if check is not None:
        checked_callable("the check of a kind of factor", check, "(factor, sizes, where)")
    if kind in FACTOR_KINDS and not replace:
        raise ConfigError(f"{kind.__name__} is a kind of factor already: choose replace=True")
    FACTOR_KINDS[kind] = FactorKind(build, check)


def kind_of(position: int, factor: object) -> FactorKind:
    """The kind of a factor: that of its class, or of the nearest class above."""
    for each in type(factor).__mro__:
        if each in FACTOR_KINDS:
            return FACTOR_KINDS[each]
    hint = ": make its class one with register_factor" if hasattr(factor, "scope") else ""
    raise ModelError(f"factor {position} is a {type(factor).__name__}, not a factor{hint}")


def _stacked(tables: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Stack tables: leaves become one parameter, computed tables keep their graph."""
    learned = [table for table in tables if table.requires_grad]
    if not learned or not all(table.is_leaf for table in learned):
        return torch.stack(list(tables)).to(dtype)
    return torch.stack([table.detach() for table in tables]).to(dtype).requires_grad_(True)


def check_tables(tables: Tensor, factors: Sequence[Factor], positions: Sequence[int]) -> None:
    """Refuse NaN, plus infinity, and factors that are zero everywhere."""
    flat = tables.detach().reshape(tables.shape[0], -1)
    for is_bad, problem in (
        (flat.isnan().any(1), "has a NaN entry"),
        ((flat == math.inf).any(1), "has an infinite entry"),
        (
            ((flat.abs() > LARGEST_LOG) & (flat != -math.inf)).any(1),
            f"has an entry beyond {LARGEST_LOG:g}, which leaves no digits for the others: these "
            "are logarithms; give values with from_values, or scale them",
        ),
        ((flat == -math.inf).all(1), "is zero everywhere, so every state is impossible"),
    ):
        if bool(is_bad.any()):
            at = int(is_bad.nonzero()[0])
            raise ModelError(f"{describe(positions[at], factors[at])} {problem}")
