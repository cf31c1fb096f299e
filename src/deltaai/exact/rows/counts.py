"""How often each joint state of each factor's scope is expected in rows that are partly known.

For rows e_1, ..., e_N with weights w_n, and a factor k with scope S_k,

    count_k(s) = Σ_n w_n p(x_{S_k} = s | e_n) = Σ_n w_n ∂ log Z(e_n) / ∂ log φ_k(s)

which is what expectation maximisation divides by, and the gradient of the likelihood of any model
whose factors can be written as tables. While messages come down (:mod:`deltaai.exact.rows.passes`)
every clique has all it takes: with the names used there, and T = Σ weight · outside · Π messages,

    inside  (E, ..)    += Σ_n w_n / T_n · belief_n(E, ..)
    outgoing(N, E, ..) += h(N, E, ..) Σ_n Σ_others w_n / T_n · message_n(N, ..) weighed_n(E, ..)

where weighed = weight · Π messages, and message is by then what is outside of the clique. Both are
sums over rows, so nothing is kept for a single row; the second is one more product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.exact.log_tables import Scope, flat_index
from deltaai.exact.rows.passes import RowPasses, Step
from deltaai.exact.rows.tables import SplitFactor
from deltaai.models import FactorGraph


class CliqueCounts:
    """Sums over rows, clique by clique, that are added to while messages come down.

    Parameters
    ----------
    passes : the cliques.
    """

    def __init__(self, passes: RowPasses) -> None:
        self._steps = passes.steps

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device="cpu")

        self.inside = [zeros(step.belief_flat.shape[0]) for step in self._steps]
        self.outgoing = [
            zeros(*step.outgoing.shape) if step.outgoing is not None else None
            for step in self._steps
        ]
        self.of_row = [
            [zeros(table[..., 0].numel(), table.shape[-1]) for _, table in step.shared.of_row]
            for step in self._steps
        ]
        self._weights = zeros(passes.rows)

    def copy(self) -> list[Tensor]:
        """What was counted so far."""
        return [one.clone() for one in self._all()]

    def restore(self, kept: list[Tensor]) -> None:
        """Go back to what :meth:`copy` gave."""
        for one, before in zip(self._all(), kept, strict=True):
            one.copy_(before)

    def _all(self) -> Iterator[Tensor]:
        yield from self.inside
        yield from (one for one in self.outgoing if one is not None)
        yield from chain.from_iterable(self.of_row)

    def begin(self, weights: Float64[Tensor, "row"]) -> None:
        """Say what the rows of the next chunk weigh; rows that weigh nothing add nothing."""
        self._weights = weights

    def add_outgoing(self, number: int, step: Step) -> None:
        """Add what the factors that leave a clique are at; ``step.outside`` must be there."""
        outgoing = self.outgoing[number]
        if outgoing is None or step.outgoing is None:
            return
        product, joint = step.tables[1], step.tables[2]
        product.copy_(step.weight_placed.expand(step.shape))
        for message in step.messages:
            product.mul_(message)
        total = torch.mul(step.outside, product, out=joint).view(-1, joint.shape[-1]).sum(0)
        product.mul_(self._weights / total)
        columns = product.view(step.product_matrices.shape)
        outgoing.add_(torch.bmm(step.message_matrices, columns.mT).mul_(step.outgoing))

    def add_inside(self, number: int, step: Step, codes: Int[Tensor, "factor row"]) -> None:
        """Add the belief of a clique; ``step.belief`` must be there."""
        scales = self._weights / step.belief_flat.sum(0)
        self.inside[number].addmv_(step.belief_flat, scales)
        for (scope, _), code, total in zip(
            step.shared.of_row, codes, self.of_row[number], strict=True
        ):
            scaled = summed_to(step.belief * scales, step.clique.weighed, scope)
            total.index_add_(1, code, scaled.reshape(total.shape[0], -1))


def summed_to(table: Tensor, scope: Scope, wanted: Scope) -> Tensor:
    """Sum a table over a scope, with perhaps one more axis, to a part of it in another order."""
    axes = [axis for axis, v in enumerate(scope) if v not in wanted]
    left = [v for v in scope if v in wanted]
    if axes:
        table = table.sum(axes)
    order = [left.index(v) for v in wanted]
    return table.permute(*order, *range(len(order), table.ndim))


def factor_counts(
    counted: CliqueCounts,
    passes: RowPasses,
    factors: Sequence[SplitFactor],
    sizes: Sequence[int],
) -> dict[int, Float64[Tensor, "..."]]:
    """Counts of the scope of each factor that is in a clique, shaped as its ``log_table``."""
    found: dict[int, Tensor] = {}
    for number, step in enumerate(passes.steps):
        clique = step.clique
        inside = counted.inside[number].view([sizes[v] for v in clique.weighed])
        for k in clique.inside:
            found[k] = summed_to(inside, clique.weighed, factors[k].scope)[..., None]
        outgoing = counted.outgoing[number]
        if outgoing is not None:
            scope = tuple(chain(clique.selecting, clique.new, clique.eliminated))
            table = outgoing.view([sizes[v] for v in scope])
            for k in clique.outgoing:
                found[k] = summed_to(table, scope, factors[k].scope)[..., None]
        for k, total in zip(clique.of_row, counted.of_row[number], strict=True):
            found[k] = total.view(factors[k].log_table.shape)
    return found


def observed_counts(
    counted: Mapping[int, Float64[Tensor, "..."]],
    factors: Sequence[SplitFactor],
    rows: Int[Tensor, "row var"],
    weights: Float64[Tensor, "row"],
    num_states: Sequence[int],
) -> dict[int, Float64[Tensor, "..."]]:
    """Counts of the other factors, which are over no inferred variable: how often each code is."""
    found = {}
    for number, factor in enumerate(factors):
        if number not in counted:
            code = flat_index(rows.T, factor.observed, num_states)
            found[number] = torch.zeros_like(factor.log_table).index_add_(-1, code, weights)
    return found


def in_groups(
    model: FactorGraph,
    factors: Sequence[SplitFactor],
    counts: Mapping[int, Float64[Tensor, "..."]],
) -> tuple[Float64[Tensor, "..."], ...]:
    """Put counts of split factors into the order of the model's groups and scopes."""
    found, first = [], 0
    for group in model.groups:
        tables = torch.zeros(group.num_factors, *group.sizes, dtype=torch.float64, device="cpu")
        for number in range(group.num_factors):
            order = factors[first + number].order
            shape = [group.sizes[place] for place in order]
            tables[number].permute(order).copy_(counts[first + number].reshape(shape))
        first += group.num_factors
        found.append(tables)
    return tuple(found)
