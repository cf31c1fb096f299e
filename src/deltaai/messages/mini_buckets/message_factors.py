"""Weighted mini-bucket messages as factors that stand beside those of the model.

Elimination replaces the variables that come before by a message over what they touch. In tables of
a bounded size a message is not the true one, but it is near
(:mod:`deltaai.messages.mini_buckets.passes`). With the messages as further factors of the graph,

    q(x_v | later) ∝ exp( Σ log φ + Σ λ ),     over all factors and messages in which v comes first,

is what :mod:`deltaai.messages.mini_buckets.sampling` draws from: the exact conditional where no
bucket was split, since the messages of a variable that comes before all others of their scope are
what is left of those that went. Constants are of no consequence: each message is taken relative to
the first state of the variable it goes to, which keeps its digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from deltaai.exact import Scope, sorted_tables
from deltaai.messages.mini_buckets.partition import (
    MiniBucketPlan,
    largest_affordable,
    plan_mini_buckets,
)
from deltaai.messages.mini_buckets.passes import MiniBucketPasses
from deltaai.models import FactorGraph, TableGroup

_BYTES_KEPT = 8  # of an entry


@dataclass(frozen=True, eq=False)
class MessagePlan:
    """Which messages there are in one order of elimination, before any is computed.

    Parameters
    ----------
    order : of elimination.
    plan : the mini-buckets, whose variables are numbered by their place in the order.
    scopes : of the model's factors, likewise.
    """

    order: tuple[int, ...]
    plan: MiniBucketPlan
    scopes: tuple[Scope, ...]

    @classmethod
    def of(cls, model: FactorGraph, order: Sequence[int], most_entries: int) -> MessagePlan:
        """Plan messages in tables of so many entries at most.

        Parameters
        ----------
        model : the target, all of whose variables have states.
        order : of elimination.
        most_entries : of a table; those of factors are always there.
        """
        rank = torch.empty(len(order), dtype=torch.long, device="cpu")
        rank[list(order)] = torch.arange(len(order), device="cpu")
        scopes = tuple(
            tuple(scope)
            for group in model.groups
            if group.arity
            for scope in rank[group.scopes.cpu()].sort(dim=1).values.tolist()
        )
        states: list[int] = model.num_states.tolist()
        sizes = [states[variable] for variable in order]
        return cls(
            tuple(order), plan_mini_buckets(scopes, sizes, most_entries=most_entries), scopes
        )

    @property
    def is_exact(self) -> bool:
        """Whether nothing is split, so that q is p."""
        return self.plan.is_exact

    @property
    def kept_bytes(self) -> int:
        """Memory of the messages once they are computed, in single precision, and of their rows."""
        numbers = range(len(self.plan.mini_buckets))
        entries = sum(self.plan.message_entries(number) for number in numbers)
        return _BYTES_KEPT * (entries + self.plan.factor_entries)

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """For each variable of the model, the later ones in its factors and messages."""
        seen: list[set[int]] = [set() for _ in self.order]
        fronts = [mini_bucket.front for mini_bucket in self.plan.mini_buckets]
        for scope in (*self.scopes, *fronts):
            if len(scope) > 1:
                seen[scope[0]].update(scope[1:])
        found: list[tuple[int, ...]] = [()] * len(self.order)
        for place, later in enumerate(seen):
            found[self.order[place]] = tuple(sorted(self.order[other] for other in later))
        return tuple(found)

    def joined_with_messages(self, model: FactorGraph) -> FactorGraph:
        """The factors of the model, and the messages of its present values as tables beside them.

        Parameters
        ----------
        model : one with these scopes, all of whose factors are positive.
        """
        factors, _ = sorted_tables(model, self.order)
        passes = MiniBucketPasses(self.plan, factors, model.device)
        passes.up(is_matching=True)
        groups = [*model.groups, *self._tables(passes, model)]
        joined = FactorGraph.from_groups(model.variables, groups)
        joined.dtype, joined.device = model.dtype, model.device
        return joined

    def _tables(self, passes: MiniBucketPasses, model: FactorGraph) -> list[TableGroup]:
        """The messages in groups of one shape."""
        plan, alike = self.plan, dict[tuple[int, ...], list[int]]()
        for number, mini_bucket in enumerate(plan.mini_buckets):
            if mini_bucket.front:
                shape = tuple(plan.sizes[v] for v in mini_bucket.front)
                alike.setdefault(shape, []).append(number)
        groups, first = [], model.num_factors
        for shape, numbers in alike.items():
            tables = torch.empty(len(numbers), *shape, dtype=model.dtype, device=model.device)
            for table, number in zip(tables, numbers, strict=True):
                message = passes.message(number).view(shape)
                table.copy_(message - message[:1])
            fronts = [[self.order[v] for v in plan.mini_buckets[n].front] for n in numbers]
            scopes = torch.tensor(fronts, dtype=torch.long, device=model.device)
            ids = torch.arange(first, first + len(numbers), device=model.device)
            groups.append(TableGroup(ids, scopes, tables))
            first += len(numbers)
        return groups


def affordable_messages(
    model: FactorGraph, order: Sequence[int], *, memory: int, most_total_entries: int
) -> tuple[int, MessagePlan]:
    """Find the largest tables, by powers of two, that memory and time allow; and their plan.

    If none are found the smallest are returned. Twice as large tables have twice as many entries,
    or nearly, so the search begins near its end.

    Parameters
    ----------
    memory : bytes that passing messages may take.
    most_total_entries : of all tables, which bounds the time: some 50 nanoseconds each.
    """

    def is_affordable(one: MessagePlan) -> bool:
        return one.plan.memory <= memory and one.plan.total_entries <= most_total_entries

    exponent, found = largest_affordable(
        lambda number: MessagePlan.of(model, order, 2**number),
        is_affordable,
        lambda one: one.plan.mini_buckets,
        max(most_total_entries // max(model.num_variables, 1), 1),
    )
    return 2**exponent, found
