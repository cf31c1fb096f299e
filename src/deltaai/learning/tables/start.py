"""Learning on: an earlier model to begin at, what must agree with it, and what it is worth.

Its variables, their states and its structure are kept; its tables are where learning begins. Where
all cells are known the first step forgets them, for then the rows alone decide; so they may also
count as a number of rows: what the earlier model expects of these is added to what is counted,

    A_v(s, k) = rows · p_earlier(parents of v = s, v = k)

With as many as it was learned from, complete ones, the result is that of all rows together: in
trees exactly, elsewhere as far as these rows are as independent as the earlier model says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import ConfigError, ModelError, NotAffordableError, Setting, did_you_mean
from deltaai.io import as_model
from deltaai.learning.tables.cases import MISSING, Cases
from deltaai.learning.tables.expectation import CaseCounter, maximised
from deltaai.learning.tables.prior import Prior
from deltaai.learning.tables.structure import CHOW_LIU, Structure, StructureLike, structure_of
from deltaai.models import ConditionalTableGroup, FactorGraph

_RAISED = 1e-3  # share of an even table, where there are zeros: what is impossible would stay so


def wanted_structure(
    structure: StructureLike | None, start: FactorGraph | str | Path | None
) -> tuple[Structure, FactorGraph | None]:
    """The structure to learn, and the model to begin at, if there is one; they agree."""
    if start is None:
        return structure_of(CHOW_LIU if structure is None else structure), None
    model = as_model(start)
    named = str(start) if isinstance(start, str | Path) else "that of the earlier model"
    kept = replace(structure_of(model), name=named)
    if structure is not None:
        _check_agreement(structure_of(structure), kept)
    return kept, model


def _check_agreement(given: Structure, kept: Structure) -> None:
    """Refuse a structure that is not that of the start."""
    remedy = ": leave it out to keep that of ", Setting("start")
    if given.is_tree_wanted:
        raise ConfigError(
            Setting("structure", CHOW_LIU), " looks for a tree, which may be another", *remedy
        )
    variables = kept.variables or {}
    for name in given.named:
        if name not in variables:
            raise ModelError(
                f"the structure names {name!r}, which the model to start from does not have"
                f"{did_you_mean(name, variables)}"
            )
    for name, variable in (given.variables or {}).items():
        if variables.get(name) != variable:
            raise ModelError(
                f"{name!r} has other states in the model to start from than in the structure",
                *remedy,
            )
    if given.is_directed != kept.is_directed:
        mine, theirs = ("directions", "none")[:: 1 if given.is_directed else -1]
        raise ModelError(
            f"the structure has {mine}, and the model to start from has {theirs}", *remedy
        )
    for name in variables:
        parents, earlier = (sorted(each.parents.get(name, ())) for each in (given, kept))
        if parents != earlier:
            raise ModelError(
                f"the parents of {name!r} are ({', '.join(parents)}) in the structure, and "
                f"({', '.join(earlier)}) in the model to start from",
                *remedy,
            )
    if not kept.is_directed:
        scopes = [{frozenset(s) for s in one.scopes_among([*variables])} for one in (given, kept)]
        if different := scopes[0] ^ scopes[1]:
            listed = ", ".join(min(map(sorted, different)))
            raise ModelError(
                f"({listed}) has a factor in the structure or in the model to start from, not in "
                "both",
                *remedy,
            )


def earlier_network(network: FactorGraph, start: FactorGraph) -> FactorGraph:
    """The tables of an earlier network, put into one whose variables may be in another order."""
    names = [variable.name for variable in start.variables]
    tables: dict[str, Tensor] = {}
    for group in start.groups:
        for scope, table in zip(group.scopes.tolist(), group.log_tables(), strict=True):
            tables[names[scope[-1]]] = table.detach().to("cpu", torch.float64)
    children = [variable.name for variable in network.variables]
    counts = [
        torch.stack([tables[children[scope[-1]]].exp() for scope in group.scopes.tolist()])
        for group in network.groups
    ]
    return maximised(network, counts, Prior())  # rows of tables that were rounded sum to one again


def without_zeros(network: FactorGraph) -> FactorGraph:
    """The network with a little of an even table in each that has zeros."""
    groups = []
    for group in network.groups:
        assert isinstance(group, ConditionalTableGroup)
        tables = group.tables.exp()
        has_zeros = (tables == 0).flatten(1).any(1).view(-1, *[1] * (tables.ndim - 1))
        raised = (1 - _RAISED) * tables + _RAISED / group.sizes[-1]
        groups.append(replace(group, tables=torch.where(has_zeros, raised.log(), group.tables)))
    return FactorGraph.from_groups(network.variables, groups)


def expected_rows(
    network: FactorGraph, number: float, budget: Budget
) -> tuple[Float64[Tensor, "..."], ...]:
    """What a network expects of so many rows of which nothing is known: counts for each group."""
    nothing = np.full((1, network.num_variables), MISSING, dtype=np.int8)
    weights = torch.full((1,), number, dtype=torch.float64, device="cpu")
    cases = Cases(Cases.of(nothing, network.variables).rows, weights)
    try:
        return CaseCounter(cases, budget, may_draw=False).counted(network).by_group
    except NotAffordableError as error:
        raise NotAffordableError(
            "what the earlier model expects cannot be computed: leave out ",
            Setting("start_rows"),
            f" ({error})",
        ) from None


def earlier_log_tables(start: FactorGraph) -> dict[tuple[str, ...], Float64[Tensor, "..."]]:
    """For each scope of a model without directions, the sum of its log-factors."""
    names = [variable.name for variable in start.variables]
    found: dict[tuple[str, ...], Tensor] = {}
    for group in start.groups:
        tables = group.log_tables().detach().to("cpu", torch.float64)
        for numbers, table in zip(group.scopes.tolist(), tables, strict=True):
            scope = tuple(names[v] for v in numbers)
            found[scope] = found[scope] + table if scope in found else table
    return found
