"""All tables of a model in one long row of log-values: the form that files have.

Parsers hand over scopes and one array, and get a factor graph without an object a factor; writers
get scopes and one array back. In each table the last variable of the scope is fastest. No text
here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from deltaai.errors import ConversionError
from deltaai.io.decimals import Numbers, exponentials
from deltaai.models import ConditionalTableGroup, FactorGraph, FactorGroup, TableGroup, Variable

# numpy 1 arrays have at most 32 axes, and a group of tables has one axis more than its scopes.
LARGEST_ARITY = 31
# Entries that a model may have when written: 2^27 doubles are 1 GiB.
LARGEST_NUM_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class FlatTables:
    """Scopes and tables in the order of the factors.

    Parameters
    ----------
    scopes : variables of each factor.
    offsets : where each factor's table begins in ``log_values``, and the end.
    log_values : the entries.
    """

    scopes: tuple[tuple[int, ...], ...]
    offsets: npt.NDArray[np.int64]
    log_values: Numbers

    def first_all_zero(self) -> int | None:
        """Find a factor that is zero everywhere."""
        if not self.scopes:
            return None
        is_zero = np.maximum.reduceat(self.log_values, self.offsets[:-1]) == -np.inf
        return int(np.argmax(is_zero)) if is_zero.any() else None

    def as_model(self, variables: Sequence[Variable], *, is_directed: bool) -> FactorGraph:
        """Make the model, of conditional tables if it is directed."""
        kind = ConditionalTableGroup if is_directed else TableGroup
        num_states = [variable.num_states for variable in variables]
        members: dict[tuple[int, ...], list[int]] = {}
        for place, scope in enumerate(self.scopes):
            members.setdefault(tuple([num_states[v] for v in scope]), []).append(place)
        groups: list[FactorGroup] = []
        for sizes, places in members.items():
            chosen = [self.scopes[place] for place in places]
            entries = self.offsets[places][:, None] + np.arange(math.prod(sizes))
            groups.append(
                kind(
                    torch.tensor(places, dtype=torch.long, device="cpu"),
                    torch.tensor(chosen, dtype=torch.long, device="cpu").reshape(
                        len(places), len(sizes)
                    ),
                    torch.from_numpy(self.log_values[entries]).reshape(len(places), *sizes),
                )
            )
        return FactorGraph.from_groups(variables, groups)


def offsets_of(num_entries: Sequence[int]) -> npt.NDArray[np.int64]:
    """Where tables of given lengths begin when they stand in one row, and where the last ends."""
    return np.concatenate(([0], np.cumsum(num_entries, dtype=np.int64))).astype(np.int64)


def tables_of(model: FactorGraph) -> FlatTables:
    """Write every factor of a model as a table, whatever its kind.

    A factor without variables becomes a constant table over the first variable (if there is one):
    hardly any other program can hold it as it is.

    Raises
    ------
    ConversionError
        When the tables would be too large, or a factor has a value that is not a number.
    """
    total = sum(group.num_factors * group.table_size for group in model.groups)
    if total > LARGEST_NUM_ENTRIES:
        raise ConversionError(
            f"the factors of the model have {total:,} table entries and at most "
            f"{LARGEST_NUM_ENTRIES:,} can be written: condition on evidence, or drop its factors "
            "over many variables"
        )
    numbered: list[tuple[int, tuple[int, ...], Numbers]] = []
    for group in model.groups:
        with torch.no_grad():
            tables = group.log_tables().cpu().double().reshape(group.num_factors, -1).numpy()
        scopes = group.scopes.tolist()
        if group.arity == 0 and model.variables:
            scopes = [(0,)] * group.num_factors
            tables = tables.repeat(model.variables[0].num_states, axis=1)
        rows = zip(group.ids.tolist(), scopes, tables, strict=True)
        numbered += [(place, tuple(scope), row) for place, scope, row in rows]
    numbered.sort(key=lambda factor: factor[0])
    log_values = np.concatenate([row for _, _, row in numbered] or [np.zeros(0)])
    if not (log_values < np.inf).all():
        bad = next(scope for _, scope, row in numbered if not (row < np.inf).all())
        names = ", ".join(model.variables[v].name for v in bad)
        raise ConversionError(f"the factor over ({names}) has an infinite or NaN log-value")
    return FlatTables(
        tuple(scope for _, scope, _ in numbered),
        offsets_of([len(row) for _, _, row in numbered]),
        log_values,
    )


class PositiveTable(NamedTuple):
    """A factor by its values, not their logarithms; one axis a variable of the scope."""

    scope: tuple[int, ...]
    values: Numbers


def positive_tables(model: FactorGraph) -> list[PositiveTable]:
    """Write every factor of a model as other libraries hold it.

    Raises
    ------
    ConversionError
        As :func:`tables_of`, and when the model has no variables or a value fits in no double.
    """
    if not model.variables:
        raise ConversionError("a model without variables has no counterpart in other libraries")
    flat = tables_of(model)
    values = exponentials(flat.log_values)
    num_states = [variable.num_states for variable in model.variables]
    return [
        PositiveTable(scope, values[begin:end].reshape([num_states[v] for v in scope]))
        for scope, begin, end in zip(flat.scopes, flat.offsets, flat.offsets[1:], strict=False)
    ]
