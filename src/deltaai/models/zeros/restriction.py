"""The smaller model that is left when some states of its variables are ruled out.

With D_v the states of v that are left, a variable with one state in D_v is fixed, and every table
keeps the entries whose states are all left:

    φ'(x_S') = φ(x_S' and the fixed states of S),   x_v in D_v for v in S', the free part of S

Factors with an empty S', and tables with the same value everywhere, go into the constant
``log_scale``. Tables of one shape are put in one group again. Neural factors can lose variables but
not states: a variable that stands in one and is not fixed keeps all its states, and the zeros with
them. Factors with learned tables are never folded into the constant, which would not follow them.

This file does not decide which states are left: see :mod:`deltaai.models.zeros.determinism`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Clamp, FactorGroup
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import TableGroup, strides_of
from deltaai.models.variable import StateIndex, Variable
from deltaai.models.zeros.reduction import Reduction


@dataclass(frozen=True, eq=False)
class _Left:
    """The original states left of each variable that stays, one after the other.

    Parameters
    ----------
    counts : number of states left.
    starts : where each variable begins in ``states``.
    """

    counts: Int[Tensor, "remaining"]
    starts: Int[Tensor, "remaining"]
    states: Int[Tensor, "pair"]

    def by_variable(self) -> tuple[tuple[int, ...], ...]:
        """The states of each variable."""
        states = self.states.tolist()
        bounds = zip(self.starts.tolist(), self.counts.tolist(), strict=True)
        return tuple(tuple(states[start : start + count]) for start, count in bounds)


def restricted(model: FactorGraph, possible: Bool[Tensor, "all_states"]) -> Reduction:
    """Leave out all states that are not possible.

    Parameters
    ----------
    model : the target; it is not changed.
    possible : which (variable, state) pairs stay, in the order of ``model.state_offsets``; at
        least one of each variable.

    Raises
    ------
    ImpossibleEvidenceError
        If a factor is zero at all that is left.
    """
    owner = owners_of_states(model)
    possible = possible | _cannot_shrink(model, _counted(model, possible))[owner]
    num_left = _counted(model, possible)
    stays = num_left > 1
    if bool(stays.all()) and bool(possible.all()):
        return Reduction.unchanged(model)

    pairs = possible.nonzero().squeeze(1)
    variables, states = owner[pairs], pairs - model.state_offsets[owner[pairs]]
    values = torch.full_like(model.num_states, -1)
    is_single = ~stays[variables]
    values[variables[is_single]] = states[is_single]
    counts = num_left[stays]
    left = _Left(counts, counts.cumsum(0) - counts, states[~is_single])
    clamp = Clamp(values, torch.where(stays, stays.cumsum(0) - 1, -1))

    groups, log_scale = _restricted_groups(model, clamp, left)
    kept_states = left.by_variable()
    remaining = [model.variables[v] for v in stays.nonzero().squeeze(1).tolist()]
    smaller = FactorGraph.from_groups(
        [_with_states(v, kept) for v, kept in zip(remaining, kept_states, strict=True)], groups
    )
    smaller.dtype, smaller.device = model.dtype, model.device
    fixed = {
        model.variables[v].name: StateIndex(k) for v, k in enumerate(values.tolist()) if k >= 0
    }
    return Reduction(model, smaller, fixed, kept_states, log_scale)


def owners_of_states(model: FactorGraph) -> Int[Tensor, "all_states"]:
    """The variable of every (variable, state) pair."""
    variables = torch.arange(model.num_variables, device=model.device)
    return variables.repeat_interleave(model.num_states)


def impossible(
    model: FactorGraph, factor_id: int, variable: str | None = None
) -> ImpossibleEvidenceError:
    """Say that nothing is left at a factor, or of a variable after that factor was asked."""
    scope: list[str] = []
    for group in model.groups:
        for row in group.scopes[group.ids == factor_id].tolist():
            scope = [model.variables[v].name for v in row]
    of_what = repr(variable or scope[0]) if variable or scope else "the model"
    return ImpossibleEvidenceError(
        f"the evidence, or the model itself, has probability zero: no state of {of_what} is "
        f"possible under the factor over ({', '.join(scope)}) and the others; change the evidence "
        "or the zeros of these factors"
    )


def _counted(model: FactorGraph, possible: Bool[Tensor, "all_states"]) -> Int[Tensor, "var"]:
    """Number of states left of each variable."""
    zeros = torch.zeros_like(model.num_states)
    return zeros.index_add(0, owners_of_states(model), possible.long())


def _cannot_shrink(model: FactorGraph, num_left: Int[Tensor, "var"]) -> Bool[Tensor, "var"]:
    """Variables of neural factors, unless they are fixed: the encoding needs all their states."""
    is_encoded = torch.zeros_like(num_left, dtype=torch.bool)
    for group in model.groups:
        if not isinstance(group, TableGroup):
            is_encoded[group.scopes.reshape(-1)] = True
    return is_encoded & (num_left > 1)


def _with_states(variable: Variable, kept: tuple[int, ...]) -> Variable:
    if len(kept) == variable.num_states:
        return variable
    return Variable(variable.name, [variable.states[state] for state in kept])


def _restricted_groups(
    model: FactorGraph, clamp: Clamp, left: _Left
) -> tuple[list[FactorGroup], float]:
    """Factors of the smaller model in groups, and the sum of those that became constant."""
    alike: dict[Hashable, list[FactorGroup]] = {}
    constants: list[float] = []
    for group in model.groups:
        is_learned = any(value.requires_grad for _, value in group.content())
        for part in group.condition(clamp):
            for shrunk in _shrunk(part, left) if isinstance(part, TableGroup) else (part,):
                varying = shrunk if is_learned else _varying(shrunk, model, constants)
                # Parts of any other kind may hold different networks, so each stays alone.
                can_merge = isinstance(varying, TableGroup | SpinGroup) and not is_learned
                key = (type(varying), varying.sizes) if can_merge else len(alike)
                alike.setdefault(key, []).append(varying)
    merged = [_merged(parts) for parts in alike.values()]
    merged = [group for group in merged if group.num_factors]
    return _renumbered(merged), math.fsum(constants)


def _shrunk(group: TableGroup, left: _Left) -> Iterator[TableGroup]:
    """Keep the entries of tables whose states are left: a group for every shape that results."""
    sizes = left.counts[group.scopes]
    if bool((sizes == torch.tensor(group.sizes, dtype=torch.long, device=sizes.device)).all()):
        yield group
        return
    strides = strides_of(group.sizes)
    shapes, shape_of = torch.unique(sizes, dim=0, return_inverse=True)
    for number, shape in enumerate(shapes.tolist()):
        chosen = group.select((shape_of == number).nonzero().squeeze(1))
        places = tuple(p for p in range(group.arity) if shape[p] < group.sizes[p])
        if not places:
            yield chosen
            continue
        index = torch.zeros(1, *[1] * group.arity, dtype=torch.long, device=sizes.device)
        for place, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            first = left.starts[chosen.scopes[:, place], None]
            states = left.states[first + torch.arange(size, device=sizes.device)]
            along = [1] * group.arity
            along[place] = size
            index = index + (stride * states).view(-1, *along)
        tables = chosen.tables.flatten(1).gather(1, index.flatten(1)).view(-1, *shape)
        kind = type(group) if group._keeps_kind(places) else TableGroup
        yield kind(chosen.ids, chosen.scopes, tables)


def _varying(group: FactorGroup, model: FactorGraph, constants: list[float]) -> FactorGroup:
    """Return the factors that are not constant; the values of the others are added to a list."""
    if group.arity and not isinstance(group, TableGroup):
        return group
    flat = group.log_tables().detach().reshape(group.num_factors, group.table_size)
    lowest, highest = flat.aminmax(dim=1)
    is_zero = highest == -torch.inf
    if bool(is_zero.any()):
        raise impossible(model, int(group.ids[is_zero][0]))
    is_constant = lowest == highest
    constants += lowest[is_constant].tolist()
    return group.select((~is_constant).nonzero().squeeze(1)) if bool(is_constant.any()) else group


def _merged(groups: Sequence[FactorGroup]) -> FactorGroup:
    """Put groups of one kind and shape together, in the order of their factors."""
    if len(groups) == 1:
        return groups[0]
    named = [dict(group.content()) for group in groups]
    together = {name: torch.cat([tensors[name] for tensors in named]) for name in named[0]}
    return replace(groups[0], **together).select(together["ids"].argsort())


def _renumbered(groups: Sequence[FactorGroup]) -> list[FactorGroup]:
    """Number the factors that are left without gaps, in their old order."""
    if not groups:
        return []
    ids = torch.cat([group.ids for group in groups]).sort().values
    return [replace(group, ids=torch.searchsorted(ids, group.ids)) for group in groups]
