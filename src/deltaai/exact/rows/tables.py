"""Factors sorted into cliques and multiplied into the tables that all rows share.

Factors are read off the model once. A factor's axes are reordered: inferred variables first, in the
order of elimination, then those observed in every row, which a code of the row selects. The largest
entry of every table is taken out and kept as a logarithm, so tables lie between zero and one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.exact.log_tables import Scope
from deltaai.exact.rows.cliques import Clique
from deltaai.exact.rows.passes import SharedTables, placed
from deltaai.models import FactorGraph, checked_log_tables


@dataclass(frozen=True, eq=False)
class SplitFactor:
    """A factor split into inferred and always observed variables.

    Parameters
    ----------
    scope : inferred variables, by their place in the elimination order, ascending.
    observed : always observed variables, by their number in the model.
    log_table : an axis for each variable of the scope, then one for the code of the observed.
    order : which place of the factor's own scope each variable stood at: those of the scope, the
        observed, and those with one state.
    """

    scope: Scope
    observed: Scope
    log_table: Float64[Tensor, "..."]
    order: tuple[int, ...]

    @property
    def spread(self) -> float:
        """Difference of the largest and smallest log-value; infinite if some entry is zero."""
        flat = self.log_table.reshape(-1, self.log_table.shape[-1])
        spread = flat.amax(0) - flat.amin(0)
        return math.inf if bool(spread.isnan().any()) else float(spread.max())


def split_factors(
    model: FactorGraph, ranks: dict[int, int], always: Sequence[int]
) -> list[SplitFactor]:
    """List a model's factors; variables neither ranked nor always observed have one state."""
    selecting = {v for v in always if model.variables[v].num_states > 1}
    found = []
    with torch.no_grad():
        for group in model.groups:
            for scope, table in zip(
                group.scopes.tolist(), checked_log_tables(model, group).cpu(), strict=True
            ):
                free = sorted((v for v in scope if v in ranks), key=ranks.__getitem__)
                observed = [v for v in scope if v in selecting]
                alone = [v for v in scope if v not in ranks and v not in selecting]
                order = [scope.index(v) for v in chain(free, observed, alone)]
                shape = [table.shape[scope.index(v)] for v in free]
                found.append(
                    SplitFactor(
                        tuple(ranks[v] for v in free),
                        tuple(observed),
                        table.permute(order).reshape(*shape, -1),
                        tuple(order),
                    )
                )
    return found


def shared_tables(
    clique: Clique, factors: Sequence[SplitFactor], sizes: Sequence[int]
) -> tuple[SharedTables, float]:
    """Multiply the factors of a clique that all rows share; also the logarithm taken out."""
    g, log_inside = _product([factors[k] for k in clique.inside], clique.weighed, sizes)
    matrices, log_outgoing = None, 0.0
    if clique.new:
        parts = (clique.selecting, clique.new, clique.eliminated)
        scope = tuple(chain.from_iterable(parts))
        h, log_outgoing = _product([factors[k] for k in clique.outgoing], scope, sizes)
        matrices = h.reshape([math.prod(sizes[v] for v in part) for part in parts])
    of_row = [factors[k] for k in clique.of_row]
    made = SharedTables(
        clique=clique,
        inside=g,
        outgoing=matrices,
        evidence=_indicators(clique.eliminated, sizes),
        of_row=tuple((factor.scope, _table_of_codes(factor)) for factor in of_row),
    )
    return made, log_inside + log_outgoing


def largest_of_codes(factor: SplitFactor) -> Float64[Tensor, "code"]:
    """Largest log-value of a row's factor for each code; it is taken out of the table."""
    return factor.log_table.reshape(-1, factor.log_table.shape[-1]).amax(0)


def _table_of_codes(factor: SplitFactor) -> Float64[Tensor, "..."]:
    largest = largest_of_codes(factor)
    return (factor.log_table - torch.where(largest == -math.inf, 0.0, largest)).exp_()


def _product(
    factors: Sequence[SplitFactor], scope: Scope, sizes: Sequence[int]
) -> tuple[Float64[Tensor, "..."], float]:
    """Product of factors over a scope, the largest entry one, and its logarithm."""
    total = torch.zeros([sizes[v] for v in scope], dtype=torch.float64, device="cpu")
    for factor in factors:
        total += placed(factor.log_table[..., 0], factor.scope, scope)
    largest = float(total.max())
    if largest == -math.inf:
        return total.exp(), 0.0
    return (total - largest).exp_(), largest


def _indicators(scope: Scope, sizes: Sequence[int]) -> Float64[Tensor, "joint code"]:
    """For each code of evidence on a scope, unknown first, which joint states it allows."""
    found = torch.ones(1, 1, dtype=torch.float64, device="cpu")
    for variable in scope:
        size = sizes[variable]
        one = torch.cat(
            (
                torch.ones(size, 1, dtype=torch.float32, device="cpu"),
                torch.eye(size, dtype=torch.float32, device="cpu"),
            ),
            1,
        ).double()
        found = torch.kron(found, one)
    return found
