"""Messages up and down for a chunk of rows at once, in probabilities.

Every table has one axis a variable and a last one for the rows of the chunk, so that the innermost
loop is long and contiguous. A clique (see :mod:`deltaai.exact.rows.cliques`) eliminates E, knows
U = E ∪ K, and meets N = separator - K in shared factors only. With g and h the products of its
shared factors inside U and of those that touch N, and ev the indicator of a row's evidence,

    weight(E, ..) = g · ev · (factors of the row)
    message(N, K) = Σ_E h(E, N, ..) [weight · Π_{children c} message_c](E, K)
    outside_c     = Σ_{U - separator_c} [Σ_N h · outside] · weight · Π_{others} message
    p(E, ..)      ∝ Σ weight · [Σ_N h · outside] · Π_{children c} message_c

The sums with h are matrix products whose columns are the other known variables times the rows.
``outside`` is what the rest of the model says of a separator, the message from above; it takes the
memory of the message from below, which is then no longer needed. No entry is divided, so there is
no 0/0. The largest entry of a message, its *scale*, is taken out of it where it would drift too
far; the logarithms of the scales make up log Z.

Products of probabilities may fall below the smallest number that floating point holds. What is
lost is tiny beside the largest entry of a table; :mod:`deltaai.exact.rows.range` follows how it can
grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.exact.log_tables import Scope
from deltaai.exact.rows.cliques import Clique


@dataclass(frozen=True, eq=False)
class SharedTables:
    """What all rows share in a clique.

    Parameters
    ----------
    clique : its variables, and their order as axes.
    inside : g over ``clique.weighed``.
    outgoing : h as matrices (selecting, new, eliminated), or None if nothing is new.
    evidence : ev for every code of the evidence on E.
    of_row : scopes and tables of the row's factors; the last axis is the row's code.
    """

    clique: Clique
    inside: Float64[Tensor, "..."]
    outgoing: Float64[Tensor, "selecting new eliminated"] | None
    evidence: Float64[Tensor, "eliminated code"]
    of_row: tuple[tuple[Scope, Float64[Tensor, "..."]], ...]


def placed(table: Tensor, scope: Scope, layout: Scope) -> Tensor:
    """View a table, whose first axes are a scope, with one axis for each variable of a layout."""
    order = sorted(range(len(scope)), key=lambda axis: layout.index(scope[axis]))
    permuted = table.permute(*order, *range(len(scope), table.ndim))
    members = frozenset(scope)
    return permuted[tuple(slice(None) if v in members else None for v in layout)]


class Step:
    """A clique with its memory: all views are made once, so that a chunk is arithmetic only."""

    def __init__(
        self, shared: SharedTables, sizes: Sequence[int], rows: int, scratch: Sequence[Tensor]
    ) -> None:
        def shape(scope: Scope) -> tuple[int, ...]:
            return (*(sizes[v] for v in scope), rows)

        def table(scope: Scope) -> Tensor:
            return torch.empty(shape(scope), dtype=torch.float64, device="cpu")

        clique = shared.clique
        self.clique = clique
        self.shared = shared
        self.shape = shape(clique.known)
        self.num_selecting = math.prod(sizes[v] for v in clique.selecting)
        self.num_new = math.prod(sizes[v] for v in clique.new)
        self.num_eliminated = math.prod(sizes[v] for v in clique.eliminated)
        columns = math.prod(shape(clique.others))
        matrices = (self.num_selecting, self.num_eliminated, columns)

        self.message = table(clique.message)
        self.message_flat = self.message.view(-1, rows)
        self.message_matrices = self.message.view(self.num_selecting, self.num_new, columns)
        evidence = table(clique.eliminated)
        self.evidence_flat = evidence.view(-1, rows)
        self.evidence = placed(evidence, clique.eliminated, clique.weighed)
        self.inside = shared.inside[..., None]
        self.weight = table(clique.weighed)
        self.weight_placed = placed(self.weight, clique.weighed, clique.known)
        self.belief = table(clique.weighed)
        self.belief_flat = self.belief.view(-1, rows)
        self.not_weighed = [a for a, v in enumerate(clique.known) if v not in clique.weighed]
        self.tables = [part[: math.prod(self.shape)].view(self.shape) for part in scratch]
        self.product = self.tables[0]
        if not clique.children:
            self.product = self.weight  # over all known variables
        elif not clique.eliminated:
            self.product = self.message
        self.product_matrices = self.product.view(matrices)
        self.outgoing = shared.outgoing
        self.incoming = None if self.outgoing is None else self.outgoing.mT.contiguous()
        self.outside_matrices = self.tables[0].view(matrices)
        self.outside = self.tables[0]
        if self.outgoing is None:
            self.outside = placed(self.message, clique.message, clique.known).expand(self.shape)
        self.single_states = _single_states(clique, sizes)

    def connect(self, children: Sequence[Step]) -> None:
        """Look at the children's messages in this clique's order of axes."""
        known = self.clique.known
        views = [placed(child.message, child.clique.message, known) for child in children]
        self.messages = [view.expand(self.shape) for view in views]
        self.summed = [
            [axis for axis, v in enumerate(known) if v not in child.clique.separator]
            for child in children
        ]
        # What is outside of a child is written where its message was.
        self.targets = [view.squeeze(axes) for view, axes in zip(views, self.summed, strict=True)]

    def take_out_scale(self, scale: Float64[Tensor, "row"]) -> None:
        """Bring the message's largest entry to one for every row, and say what it was."""
        torch.amax(self.message_flat, 0, out=scale)
        self.message_flat.mul_(scale.reciprocal())

    def pass_to(self, child: int, left: Tensor, right: Tensor) -> None:
        """Write a product of two tables as what is outside of a child."""
        if self.summed[child]:
            self.sum_to(child, torch.mul(left, right, out=self.tables[2]))
        else:
            torch.mul(left, right, out=self.targets[child])

    def sum_to(self, child: int, table: Tensor) -> None:
        """Sum a table to a child's separator."""
        if self.summed[child]:
            torch.sum(table, self.summed[child], out=self.targets[child])
        else:
            self.targets[child].copy_(table)


@runtime_checkable
class Counts(Protocol):
    """What is told of cliques while messages come down."""

    def add_outgoing(self, number: int, step: Step) -> None:
        """What is outside of a clique is there, and nothing of the clique is overwritten."""

    def add_inside(self, number: int, step: Step, codes: Int[Tensor, "factor row"]) -> None:
        """The belief of a clique is there; codes are of its factors of the row."""


class RowPasses:
    """The memory and the arithmetic for chunks of a given number of rows.

    Parameters
    ----------
    shared : tables of the cliques, children before parents.
    sizes : numbers of states of the variables.
    rows : rows in a chunk.
    is_scaled : whether the scale is taken out of each clique's message.
    is_outside_scaled : the same for what is outside of each clique.
    """

    def __init__(
        self,
        shared: Sequence[SharedTables],
        sizes: Sequence[int],
        rows: int,
        is_scaled: Sequence[bool],
        is_outside_scaled: Sequence[bool],
    ) -> None:
        def ones(*shape: int) -> Tensor:
            return torch.ones(*shape, dtype=torch.float64, device="cpu")

        largest = max((math.prod(sizes[v] for v in one.clique.known) for one in shared), default=1)
        scratch = [ones(largest * rows) for _ in range(3)]
        self.rows = rows
        self.steps = [Step(one, sizes, rows, scratch) for one in shared]
        self.is_root = [True] * len(shared)
        for step in self.steps:
            step.connect([self.steps[child] for child in step.clique.children])
            for child in step.clique.children:
                self.is_root[child] = False
        self.is_scaled = is_scaled
        self.is_outside_scaled = is_outside_scaled
        self.scales: Float64[Tensor, "clique row"] = ones(len(shared), rows)
        self.outside_scales: Float64[Tensor, "clique row"] = ones(len(shared), rows)
        self.marginals: Float64[Tensor, "pair row"] = ones(sum(sizes), rows)
        ends = accumulate((len(step.single_states) for step in self.steps), initial=0)
        self.marginals_of = [self.marginals[a:b] for a, b in pairwise(ends)]

    def run(self, codes: Int[Tensor, "code row"], counts: Counts | None = None) -> None:
        """Send messages up and down.

        Afterwards ``scales`` and ``marginals`` (clique by clique, not normalised) hold the answer.

        Parameters
        ----------
        codes : evidence on each clique's variables, then the codes of the factors of rows, in the
            order of the cliques.
        counts : told of every clique on the way down, when what is outside of it is there, and when
            its belief is.
        """
        place, of_row = len(self.steps), []
        for number, step in enumerate(self.steps):
            end = place + len(step.shared.of_row)
            of_row.append(codes[place:end])
            self._weigh(step, codes[number], of_row[number])
            self._send_up(number, step)
            place = end
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            self._bring_down(number, step)
            if counts is not None:
                counts.add_outgoing(number, step)
            self._send_down(number, step)
            if counts is not None and step.clique.eliminated:
                counts.add_inside(number, step, of_row[number])

    def _weigh(self, step: Step, evidence: Tensor, of_row: Tensor) -> None:
        torch.index_select(step.shared.evidence, 1, evidence, out=step.evidence_flat)
        torch.mul(step.inside, step.evidence, out=step.weight)
        for (scope, table), code in zip(step.shared.of_row, of_row, strict=True):
            step.weight.mul_(placed(table.index_select(-1, code), scope, step.clique.weighed))

    def _send_up(self, number: int, step: Step) -> None:
        if step.messages:
            torch.mul(step.messages[0], step.weight_placed, out=step.product)
            for message in step.messages[1:]:
                step.product.mul_(message)
        if step.outgoing is not None:
            torch.bmm(step.outgoing, step.product_matrices, out=step.message_matrices)
        elif step.clique.eliminated:
            torch.sum(step.product_matrices, 1, keepdim=True, out=step.message_matrices)
        if self.is_root[number]:
            self.scales[number] = step.message_flat[0]
        elif self.is_scaled[number]:
            step.take_out_scale(self.scales[number])

    def _bring_down(self, number: int, step: Step) -> None:
        """What is outside of a clique, over all that it knows."""
        if self.is_root[number]:
            step.message.fill_(1.0)
        elif self.is_outside_scaled[number]:
            step.take_out_scale(self.outside_scales[number])
        if step.incoming is not None:
            torch.bmm(step.incoming, step.message_matrices, out=step.outside_matrices)

    def _send_down(self, number: int, step: Step) -> None:
        if len(step.messages) == 2:
            self._pass_to_two(number, step)
        elif step.messages:
            product = torch.mul(step.outside, step.messages[0], out=step.tables[1])
            self._believe(number, step, product)
            step.pass_to(0, step.outside, step.weight_placed)
        else:
            self._believe(number, step, step.outside)

    def _pass_to_two(self, number: int, step: Step) -> None:
        first, second = step.messages
        weighted = torch.mul(step.outside, step.weight_placed, out=step.tables[0])
        with_first = torch.mul(weighted, first, out=step.tables[1])
        step.pass_to(0, weighted, second)
        if step.clique.eliminated:
            step.weight.fill_(1.0)  # it is in already
            self._believe(number, step, torch.mul(with_first, second, out=step.tables[2]))
        step.sum_to(1, with_first)

    def _believe(self, number: int, step: Step, product: Tensor) -> None:
        """Marginals of the eliminated variables, from the product of all but the weight."""
        if step.not_weighed:
            product = torch.sum(product, step.not_weighed, out=step.belief)
        torch.mul(product, step.weight, out=step.belief)
        torch.mm(step.single_states, step.belief_flat, out=self.marginals_of[number])


def _single_states(clique: Clique, sizes: Sequence[int]) -> Float64[Tensor, "pair joint"]:
    """Matrix that sums a table over the weighed scope to the eliminated variables' states."""
    shape = [sizes[v] for v in clique.weighed]
    found = [torch.zeros(0, math.prod(shape), dtype=torch.float64, device="cpu")]
    for variable in clique.eliminated:
        size = sizes[variable]
        alone = [size, *(size if v == variable else 1 for v in clique.weighed)]
        is_state = (
            torch.eye(size, dtype=torch.float64, device="cpu").view(alone).expand(size, *shape)
        )
        found.append(is_state.reshape(size, -1))
    return torch.cat(found)
