"""From a list of factors to groups of one shape, checked on the way.

Factors go together when one tensor operation can evaluate them: tables of one shape, all
couplings, all fields, neural factors of one architecture. What a factor may be, and what its group
is, stands in :mod:`deltaai.models.factor_kinds`; here scopes become numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch

from deltaai.errors import ModelError, did_you_mean, shown
from deltaai.models.factor_kinds import AlikeFactors, describe, kind_of
from deltaai.models.factors import LARGEST_SCOPE, Factor
from deltaai.models.groups import FactorGroup
from deltaai.models.variable import Variable


def coordinates_of(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """The variables, vectors laid out as one for each coordinate."""
    return tuple(
        each
        for variable in variables
        for each in (variable.coordinates if isinstance(variable, Variable) else (variable,))
    )


def index_of(variables: Sequence[Variable]) -> dict[str, int]:
    """Number of each variable by its name, all of which differ."""
    index: dict[str, int] = {}
    for position, variable in enumerate(variables):
        if not isinstance(variable, Variable):
            raise ModelError(
                f"variable {position} is a {type(variable).__name__}, not a Variable: write for "
                "example Variable('rain', ['no', 'yes'])"
            )
        if variable.name in index:
            raise ModelError(f"two variables are named {variable.name!r}: names must be distinct")
        index[variable.name] = position
    for variable in variables:
        if variable.node != variable.name and variable.node in index:
            raise ModelError(
                f"a vector and another variable are named {variable.node!r}: names must be distinct"
            )
    return index


def assemble(
    variables: Sequence[Variable],
    places: Mapping[str, Sequence[int]],
    factors: Sequence[Factor],
    dtype: torch.dtype,
) -> tuple[FactorGroup, ...]:
    """Check factors and store them in groups of one shape, in order of first appearance."""
    members: dict[Hashable, list[int]] = {}
    scopes: list[list[int]] = []
    for position, factor in enumerate(factors):
        kind = kind_of(position, factor)
        scopes.append(_resolve_scope(position, factor, places))
        sizes = tuple(variables[v].num_states for v in scopes[-1])
        key = kind.key(factor, sizes, describe(position, factor))
        members.setdefault(key, []).append(position)

    groups: list[FactorGroup] = []
    for positions in members.values():
        first = positions[0]
        ids = torch.tensor(positions, dtype=torch.long, device="cpu")
        scope = torch.tensor([scopes[p] for p in positions], dtype=torch.long, device="cpu")
        scope = scope.reshape(len(positions), len(scopes[first]))
        sizes = tuple(variables[v].num_states for v in scopes[first])
        alike = AlikeFactors(ids, scope, sizes, [factors[p] for p in positions], dtype)
        groups.append(_built(first, alike))
    return tuple(groups)


def _built(position: int, alike: AlikeFactors) -> FactorGroup:
    """The group of some factors, which somebody else's builder may get wrong."""
    factor = alike.factors[0]
    group = kind_of(position, factor).build(alike)
    if not isinstance(group, FactorGroup):
        raise ModelError(
            f"the builder of {type(factor).__name__} gave {shown(group)}, not a FactorGroup"
        )
    return group


def _resolve_scope(position: int, factor: Factor, places: Mapping[str, Sequence[int]]) -> list[int]:
    """Columns of a factor's variables, those of all coordinates of vectors."""
    try:
        found = [column for name in factor.scope for column in places[name]]
    except KeyError as error:
        name = error.args[0]
        raise ModelError(
            f"{describe(position, factor)}: no variable {shown(name)}{did_you_mean(name, places)}"
        ) from None
    except TypeError:  # a name that cannot be one
        raise ModelError(
            f"factor {position} is over {shown(factor.scope)}: a scope holds names"
        ) from None
    if len(set(found)) != len(found) > len(factor.scope):
        raise ModelError(f"{describe(position, factor)} names a coordinate twice")
    if len(found) > LARGEST_SCOPE:
        raise ModelError(
            f"{describe(position, factor)} has {len(found)} coordinates, and at most "
            f"{LARGEST_SCOPE} can be"
        )
    return found
