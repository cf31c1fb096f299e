"""From a list of factors to groups of one shape, checked on the way.

Factors go together when one tensor operation can evaluate them: tables of one shape, all
couplings, all fields, neural factors of one architecture. Everything that can be wrong with a
factor is found here, with the factor named.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from deltaai.arguments import is_finite
from deltaai.errors import ModelError, did_you_mean, shown
from deltaai.models.factors import (
    ConditionalTable,
    Factor,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
)
from deltaai.models.groups import FactorGroup
from deltaai.models.module_settings import module_key
from deltaai.models.neural_group import NeuralGroup
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.variable import Variable

LARGEST_LOG = 1e12  # beyond, a double has no digits left for what is added to a logarithm


def assemble(
    variables: Sequence[Variable],
    index: Mapping[str, int],
    factors: Sequence[Factor],
    dtype: torch.dtype,
) -> tuple[FactorGroup, ...]:
    """Check factors and store them in groups of one shape, in order of first appearance."""
    members: dict[Hashable, list[int]] = {}
    scopes: list[list[int]] = []
    for position, factor in enumerate(factors):
        scopes.append(_resolve_scope(position, factor, index))
        sizes = tuple(variables[v].num_states for v in scopes[-1])
        members.setdefault(_group_key(position, factor, sizes), []).append(position)

    groups: list[FactorGroup] = []
    for positions in members.values():
        chosen = [factors[position] for position in positions]
        ids = torch.tensor(positions, dtype=torch.long, device="cpu")
        arity = len(chosen[0].scope)
        scope = torch.tensor([scopes[p] for p in positions], dtype=torch.long, device="cpu")
        scope = scope.reshape(len(positions), arity)
        first = chosen[0]
        if isinstance(first, TableFactor | ConditionalTable):
            tables = _stacked([f.log_table for f in chosen], dtype)  # type: ignore[union-attr]
            check_tables(tables, chosen, positions)
            kind = TableGroup if isinstance(first, TableFactor) else ConditionalTableGroup
            groups.append(kind(ids, scope, tables))
        elif isinstance(first, SpinCoupling | SpinField):
            strengths = torch.tensor([f.strength for f in chosen], dtype=dtype, device="cpu")  # type: ignore[union-attr]
            groups.append(SpinGroup(ids, scope, strengths))
        else:
            modules = [f.module for f in chosen if isinstance(f, NeuralFactor)]
            sizes = tuple(variables[v].num_states for v in scopes[positions[0]])
            groups.append(NeuralGroup.build(ids, scope, sizes, modules, dtype))
    return tuple(groups)


def _stacked(tables: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Stack tables: leaves become one parameter, computed tables keep their graph."""
    learned = [table for table in tables if table.requires_grad]
    if not learned or not all(table.is_leaf for table in learned):
        return torch.stack(list(tables)).to(dtype)
    return torch.stack([table.detach() for table in tables]).to(dtype).requires_grad_(True)


def describe(position: int, factor: Factor) -> str:
    """Name a factor in an error message."""
    return f"factor {position} over ({', '.join(map(str, factor.scope))})"


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


def _resolve_scope(position: int, factor: Factor, index: Mapping[str, int]) -> list[int]:
    if not isinstance(factor, Factor):
        raise ModelError(f"factor {position} is a {type(factor).__name__}, not a factor")
    try:
        return [index[name] for name in factor.scope]
    except KeyError as error:
        name = error.args[0]
        raise ModelError(
            f"{describe(position, factor)}: no variable {shown(name)}{did_you_mean(name, index)}"
        ) from None
    except TypeError:  # a name that cannot be one
        raise ModelError(
            f"factor {position} is over {shown(factor.scope)}: a scope holds names"
        ) from None


def _group_key(position: int, factor: Factor, sizes: tuple[int, ...]) -> Hashable:
    match factor:
        case TableFactor() | ConditionalTable():
            if tuple(factor.log_table.shape) != sizes:
                raise ModelError(
                    f"{describe(position, factor)}: its table has shape "
                    f"{tuple(factor.log_table.shape)}, but the variables have {sizes} states"
                )
            return (type(factor), sizes)
        case SpinCoupling() | SpinField():
            if any(size != 2 for size in sizes):
                raise ModelError(
                    f"{describe(position, factor)}: spins need variables with 2 states, not {sizes}"
                )
            if not is_finite(factor.strength) or abs(factor.strength) > LARGEST_LOG:
                where = describe(position, factor)
                raise ModelError(
                    f"{where}: its strength is {shown(factor.strength)}, not a number up to 1e12"
                )
            if len(set(factor.scope)) != len(factor.scope):
                raise ModelError(f"{describe(position, factor)} couples a variable to itself")
            return (type(factor), sizes)
        case NeuralFactor():
            return (NeuralFactor, sizes, module_key(factor.module))
    raise ModelError(f"factor {position} is a {type(factor).__name__}, not a factor")
