"""Bucket elimination in log space: the engine under exact inference.

Each factor waits in the bucket of its first variable to be eliminated. Going up the order, the
bucket of v is the sum of its log-factors and of the messages from below, and its message is that
sum with v summed (or maximised) out:

    bucket_v(x_v, x_front) = Σ log φ_k + Σ_{children c} message_c
    message_v(x_front)     = log Σ_{x_v} exp bucket_v

The message of a root is a number; their sum is log Z. Going down, exp(bucket_v - message_v) is the
exact conditional p(x_v | x_front), so the marginal of v's clique is that times the marginal of its
front, which the clique above gives. Messages are kept, buckets are rebuilt when needed: that
halves the memory. This file knows nothing of names or evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.exact.log_tables import (
    LogTable,
    Scope,
    add_all,
    aligned_shapes,
    flat_index,
    marginalise,
)
from deltaai.graphs import Elimination
from deltaai.models import FactorGraph

Reduce = Callable[[Tensor], Tensor]
Report = Callable[[int], None]  # told how many table entries were worked through


class BucketTree:
    """Factors of a model sorted into buckets, ready to be summed or maximised.

    Inside, variables are numbered by their place in the elimination order.

    Parameters
    ----------
    model : the target, without evidence.
    elimination : the order and its fronts.
    """

    def __init__(self, model: FactorGraph, elimination: Elimination) -> None:
        self.order = elimination.order
        rank = [0] * len(self.order)
        for position, vertex in enumerate(self.order):
            rank[vertex] = position
        self.rank = rank
        states = model.num_states.tolist()
        self.sizes: list[int] = [states[vertex] for vertex in self.order]
        self.fronts: list[Scope] = [
            tuple(rank[u] for u in elimination.fronts[v]) for v in self.order
        ]
        self.parents = [front[0] if front else -1 for front in self.fronts]
        self.children: list[list[int]] = [[] for _ in self.order]
        for variable, parent in enumerate(self.parents):
            if parent >= 0:
                self.children[parent].append(variable)
        self.device = model.device
        self.factors: list[list[LogTable]] = [[] for _ in self.order]
        self.constant = 0.0
        self._sort_factors(model)

    @property
    def num_variables(self) -> int:
        """Number of variables."""
        return len(self.order)

    def _sort_factors(self, model: FactorGraph) -> None:
        rank = torch.tensor(self.rank, dtype=torch.long, device=model.device)
        with torch.no_grad():
            for group in model.groups:
                tables = group.log_tables().double()
                if group.arity == 0:
                    self.constant += float(tables.sum())
                    continue
                ranks, places = rank[group.scopes].sort(dim=1)
                for scope, order, table in zip(
                    ranks.tolist(), places.tolist(), tables, strict=True
                ):
                    self.factors[scope[0]].append(
                        LogTable(tuple(scope), table.permute(order).reshape(-1))
                    )

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some factor is zero somewhere."""
        return any(bool((table.values == -math.inf).any()) for row in self.factors for table in row)

    # -- going up ------------------------------------------------------------------------------

    def messages(self, reduce: Reduce, report: Report) -> list[LogTable]:
        """Eliminate every variable in order; return the message each one sends."""
        sent: list[LogTable] = []
        for variable in range(self.num_variables):
            bucket = self.bucket(variable, sent)
            message = reduce(bucket.view(self.sizes[variable], -1))
            sent.append(LogTable(self.fronts[variable], message))
            report(bucket.numel())
        return sent

    def bucket(self, variable: int, sent: list[LogTable]) -> Float[Tensor, "entry"]:
        """Sum of a variable's factors and incoming messages, over itself and its front."""
        tables = self.operands(variable, sent)
        if not tables:  # a variable in no factor: uniform, and nothing in front of it
            return torch.zeros(self.sizes[variable], dtype=torch.float64, device=self.device)
        return add_all(tables, self.sizes).values

    def operands(self, variable: int, sent: list[LogTable]) -> list[LogTable]:
        """A variable's factors and incoming messages."""
        return self.factors[variable] + [sent[child] for child in self.children[variable]]

    def clique(self, variable: int) -> Scope:
        """A variable and its front."""
        return (variable, *self.fronts[variable])

    def log_total(self, sent: list[LogTable]) -> float:
        """Log Z, or the best log score, from the messages of the roots."""
        roots = (v for v in range(self.num_variables) if self.parents[v] < 0)
        return self.constant + math.fsum(float(sent[root].values) for root in roots)

    # -- going down ----------------------------------------------------------------------------

    def conditional(self, variable: int, sent: list[LogTable]) -> Float[Tensor, "entry"]:
        """p(x_v | x_front) as a flat table over v and its front; zero where the front is."""
        bucket = self.bucket(variable, sent).view(self.sizes[variable], -1)
        message = sent[variable].values
        if self.has_zeros:
            message = torch.where(message == -math.inf, torch.zeros_like(message), message)
        # With one operand the bucket is that operand itself, so it must not be changed in place.
        return (bucket - message).exp_().view(-1)

    def clique_marginals(
        self, sent: list[LogTable]
    ) -> Iterator[tuple[int, Float[Tensor, "entry"]]]:
        """Yield each variable with the marginal of its clique, from the roots down."""
        one = torch.ones(1, dtype=torch.float64, device=self.device)
        stack = [(v, one) for v in range(self.num_variables) if self.parents[v] < 0]
        while stack:
            variable, front_marginal = stack.pop()
            joint = self.conditional(variable, sent).view(self.sizes[variable], -1)
            joint.mul_(front_marginal)
            joint = joint.view(-1)
            scope = self.clique(variable)
            stack += (
                (child, marginalise(joint, scope, self.fronts[child], self.sizes))
                for child in self.children[variable]
            )
            yield variable, joint

    def decode(
        self,
        sent: list[LogTable],
        batch: int,
        choose: Callable[[Float[Tensor, "batch state"]], Int[Tensor, "batch"]],
    ) -> Int[Tensor, "var batch"]:
        """Set variables from the roots down, each by ``choose`` from its log-conditionals."""
        columns = torch.zeros(self.num_variables, batch, dtype=torch.long, device=self.device)
        for variable in reversed(range(self.num_variables)):
            num_states = self.sizes[variable]
            logits = torch.zeros(batch, num_states, dtype=torch.float64, device=self.device)
            for table in self.operands(variable, sent):
                # The variable is first in every scope it is in, so its slices are rows.
                rows = table.values.view(num_states, -1)
                logits += rows[:, flat_index(columns, table.scope[1:], self.sizes)].T
            columns[variable] = choose(logits)
        return columns

    def conditional_given(
        self, variable: int, sent: list[LogTable], scope: Scope
    ) -> Float[Tensor, "entry"]:
        """p(x_v | x_front) as a flat table over any larger ascending scope."""
        clique = self.clique(variable)
        small, large = aligned_shapes((clique, scope), scope, self.sizes)
        return self.conditional(variable, sent).view(small).expand(large).reshape(-1)
