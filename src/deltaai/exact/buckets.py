"""Bucket elimination in log space: the engine under exact inference.

Each factor waits in the bucket of its first variable to be eliminated. Going up the order, the
bucket of v is the sum of its log-factors and of the messages from below, and its message is that
sum with v summed (or maximised) out:

    bucket_v(x_v, x_front) = Σ log φ_k + Σ_{children c} message_c
    message_v(x_front)     = log Σ_{x_v} exp bucket_v

The message of a root is a number; their sum is log Z. Going down, exp(bucket_v - message_v) is the
exact conditional p(x_v | x_front), so the marginal of v's clique is that times the marginal of its
front, which the clique above gives. Messages are kept, buckets are rebuilt when needed: that
halves the memory, all of which is taken at the start (see :mod:`deltaai.exact.memory`). This file
knows nothing of names or evidence, and one thread at a time may use a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate

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
    sorted_tables,
)
from deltaai.exact.memory import most_waiting
from deltaai.graphs import Elimination
from deltaai.models import FactorGraph
from deltaai.watch import look

Reduce = Callable[[Tensor, Tensor, Tensor], None]  # table with v's axis first, scratch, result
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
        self.rank = [0] * len(self.order)
        for position, vertex in enumerate(self.order):
            self.rank[vertex] = position
        states = model.num_states.tolist()
        self.sizes: list[int] = [states[vertex] for vertex in self.order]
        self.fronts: list[Scope] = [
            tuple(self.rank[u] for u in elimination.fronts[v]) for v in self.order
        ]
        self.parents = [front[0] if front else -1 for front in self.fronts]
        self.children: list[list[int]] = [[] for _ in self.order]
        for variable, parent in enumerate(self.parents):
            if parent >= 0:
                self.children[parent].append(variable)
        tables, self.constant = sorted_tables(model, self.order)
        self.factors: list[list[LogTable]] = [[] for _ in self.order]
        for table in tables:
            self.factors[table.scope[0]].append(table)
        self._take_memory(model.device)

    @property
    def num_variables(self) -> int:
        """Number of variables."""
        return len(self.order)

    def _take_memory(self, device: torch.device) -> None:
        self._front_sizes = [math.prod(self.sizes[u] for u in front) for front in self.fronts]
        largest = max(
            (k * rest for k, rest in zip(self.sizes, self._front_sizes, strict=True)), default=1
        )
        ends = list(accumulate(self._front_sizes, initial=0))

        def table(entries: int) -> Tensor:
            return torch.empty(entries, dtype=torch.float64, device=device)

        kept = table(ends[-1])
        self._messages = [
            LogTable(front, kept[ends[v] : ends[v + 1]]) for v, front in enumerate(self.fronts)
        ]
        self._buffers = (table(largest), table(largest))
        self._table = table
        self.holds: Reduce | None = None

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some factor is zero somewhere."""
        return any(bool((table.values == -math.inf).any()) for row in self.factors for table in row)

    def clique(self, variable: int) -> Scope:
        """A variable and its front."""
        return (variable, *self.fronts[variable])

    # -- going up ------------------------------------------------------------------------------

    def send_messages(self, reduce: Reduce, report: Report) -> None:
        """Eliminate every variable in order and keep its message; earlier ones are overwritten.

        Afterwards ``holds`` says which messages there are.
        """
        self.holds = None  # nothing valid while they are being sent
        for variable in range(self.num_variables):
            look()
            bucket, other = self._bucket(variable)
            reduce(bucket, other, self._messages[variable].values)
            report(bucket.numel())
        self.holds = reduce

    def log_total(self) -> float:
        """Log Z, or the best log score, from the messages of the roots."""
        roots = (v for v in range(self.num_variables) if self.parents[v] < 0)
        return self.constant + math.fsum(float(self._messages[root].values) for root in roots)

    def _operands(self, variable: int) -> list[LogTable]:
        """A variable's factors and incoming messages; the variable is first in every scope."""
        return self.factors[variable] + [self._messages[c] for c in self.children[variable]]

    def _bucket(
        self, variable: int
    ) -> tuple[Float[Tensor, "state front"], Float[Tensor, "state front"]]:
        """Sum of factors and incoming messages, and a scratch table of the same shape."""
        shape = (self.sizes[variable], self._front_sizes[variable])
        tables = self._operands(variable)
        if not tables:  # a variable in no factor: uniform, and nothing in front of it
            values = self._buffers[0][: shape[0]].zero_()
        else:
            values = add_all(tables, self.sizes, self._buffers)
        is_first = values.data_ptr() == self._buffers[0].data_ptr()
        other = self._buffers[1 if is_first else 0][: values.numel()]
        return values.view(shape), other.view(shape)

    # -- going down ----------------------------------------------------------------------------

    def conditional(self, variable: int) -> Float[Tensor, "state front"]:
        """p(x_v | x_front), zero where the front is impossible; overwritten by the next call."""
        bucket, result = self._bucket(variable)
        torch.sub(bucket, self._messages[variable].values, out=result).exp_()
        # Where the front is impossible this was exp(-inf + inf).
        return result.nan_to_num_(nan=0.0) if self.has_zeros else result

    def clique_marginals(self) -> Iterator[tuple[int, Float[Tensor, "entry"]]]:
        """Yield each variable with the marginal of its clique; overwritten by the next one.

        Depth first from the roots. The marginals of fronts whose variable waits lie on a stack.
        """
        stack = self._table(most_waiting(self.parents, self.children, self._front_sizes))
        waiting = [v for v in range(self.num_variables) if self.parents[v] < 0]
        top = len(waiting)
        stack[:top] = 1.0
        while waiting:
            look()
            variable = waiting.pop()
            start = top - self._front_sizes[variable]
            joint = self.conditional(variable)
            joint.mul_(stack[start:top])
            joint = joint.view(-1)
            top = start
            for child in self.children[variable]:
                below = stack[top : top + self._front_sizes[child]]
                marginalise(joint, self.clique(variable), self.fronts[child], self.sizes, below)
                top += self._front_sizes[child]
            waiting += self.children[variable]
            yield variable, joint

    def decode(
        self,
        batch: int,
        choose: Callable[[Float[Tensor, "batch state"]], Int[Tensor, "batch"]],
    ) -> Int[Tensor, "var batch"]:
        """Set variables from the roots down, each by ``choose`` from its log-conditionals."""
        device = self._buffers[0].device
        columns = torch.zeros(self.num_variables, batch, dtype=torch.long, device=device)
        for variable in reversed(range(self.num_variables)):
            look()
            num_states = self.sizes[variable]
            logits = torch.zeros(batch, num_states, dtype=torch.float64, device=device)
            for table in self._operands(variable):
                rows = table.values.view(num_states, -1)
                logits += rows[:, flat_index(columns, table.scope[1:], self.sizes)].T
            columns[variable] = choose(logits)
        return columns

    def conditional_over(self, variable: int, scope: Scope) -> Float[Tensor, "entry"]:
        """p(x_v | x_front) as a new flat table over any ascending scope that holds the clique."""
        small, large = aligned_shapes((self.clique(variable), scope), scope, self.sizes)
        return self.conditional(variable).view(small).expand(large).clone().view(-1)
