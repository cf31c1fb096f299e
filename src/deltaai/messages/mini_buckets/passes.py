"""Weighted mini-bucket elimination: a bound on log Z, and its slopes.

A bucket split into mini-buckets r with tables ψ_r is bounded by Hölder's inequality,

    log Σ_{x_v} exp Σ_r ψ_r  ≤  Σ_r λ_r,    λ_r = w_r log Σ_{x_v} exp(ψ_r / w_r),    Σ_r w_r = 1,

for any positive weights w. Each λ_r is a function in a later bucket, and the sum of the roots' λ is
the bound. It stays a bound when something is added to one mini-bucket and taken from another:
*shifts* δ_r over the scope they share, Σ_r δ_r = 0. The first pass up chooses them so that the
shared marginals agree (moment matching, Ihler et al. 2012),

    δ_r = w_r (Σ_s w_s m_s - m_r),    m_r = log Σ_{not shared} exp(ψ_r / w_r).

The bound is convex in shifts and weights, and a pass down finds its slopes from the *beliefs*
(Liu and Ihler 2011),

    b_r = exp((ψ_r - λ_r) / w_r) · (belief of the mini-bucket that λ_r goes to, on r's front):

the slope by δ_r is b_r summed onto the shared scope, that by w_r the entropy of x_v given the rest
under b_r. This file chooses no partition, takes no steps along the slopes and knows no names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.exact import Buffers, LogTable, Scope, add_all, log_marginalise, log_sum_first
from deltaai.messages.mini_buckets.partition import MiniBucketPlan
from deltaai.watch import look


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of the bound by the shifts and weights of one variable's mini-buckets."""

    shifts: Float[Tensor, "mini_bucket shared"]
    weights: Float[Tensor, "mini_bucket"]


class MiniBucketPasses:
    """Tables of a plan, with weights and shifts that may be set from outside.

    Parameters
    ----------
    plan : the mini-buckets.
    factors : the factors' tables, in the order the plan numbers them.
    device : where to compute.

    Attributes
    ----------
    weights : of each mini-bucket; those of a variable sum to one.
    shifts : for each variable that is split, one row a mini-bucket; they sum to zero, or to -inf
        where the product of the mini-buckets is zero anyway.
    """

    def __init__(
        self, plan: MiniBucketPlan, factors: Sequence[LogTable], device: torch.device
    ) -> None:
        self.plan = plan
        self.weights = [1.0 / len(bucket) for bucket in plan.buckets for _ in bucket]
        self.shifts = {
            v: self._zeros(len(plan.buckets[v]), plan.shared_entries(v), device) for v in plan.split
        }
        self._shift_of = {
            number: LogTable(plan.shared[v], row)
            for v in plan.split
            for number, row in zip(plan.buckets[v], self.shifts[v], strict=True)
        }
        self._factors = factors
        self._messages = self._tables_over_fronts(device)
        # β_r = w_r log(belief on the front) - λ_r, so that log b_r = (ψ_r + β_r) / w_r.
        self._from_above = [] if plan.is_exact else self._tables_over_fronts(device)
        self._front_entropy = [0.0] * len(plan.mini_buckets)
        work = self._zeros(3, plan.largest_table, device)
        self._buffers: Buffers = (work[0], work[1])
        self._scaled: Tensor = work[2]

    def _tables_over_fronts(self, device: torch.device) -> list[LogTable]:
        plan = self.plan
        lengths = [plan.message_entries(number) for number in range(len(plan.mini_buckets))]
        ends = list(accumulate(lengths, initial=0))
        kept = self._zeros(1, ends[-1], device)[0]
        return [
            LogTable(mini_bucket.front, kept[ends[number] : ends[number + 1]])
            for number, mini_bucket in enumerate(plan.mini_buckets)
        ]

    @staticmethod
    def _zeros(rows: int, entries: int, device: torch.device) -> Float[Tensor, "row entry"]:
        return torch.zeros(rows, entries, dtype=torch.float64, device=device)

    # -- up ------------------------------------------------------------------------------------

    def up(self, *, is_matching: bool = False) -> float:
        """Sum out all variables and return the bound; choose the shifts on the way if matching."""
        total = []
        for variable, bucket in enumerate(self.plan.buckets):
            look()
            if is_matching and len(bucket) > 1:
                self._match(variable, bucket)
            for number in bucket:
                self._send(number)
                if not self.plan.mini_buckets[number].front:
                    total.append(float(self._messages[number].values))
        return -math.inf if -math.inf in total else math.fsum(total)

    def _send(self, number: int) -> None:
        values, weight = self._sum(number, self._operands(number)), self.weights[number]
        message = self._messages[number].values
        if weight != 1.0:
            values = torch.mul(values, 1 / weight, out=self._scaled[: values.numel()])
        shape = (self.plan.sizes[self.plan.mini_buckets[number].scope[0]], message.numel())
        log_sum_first(values.view(shape), self._unused_buffer(values).view(shape), message)
        if weight != 1.0:
            message.mul_(weight)

    def _match(self, variable: int, bucket: range) -> None:
        shifts, shared = self.shifts[variable].zero_(), self.plan.shared[variable]
        marginals = torch.empty_like(shifts)
        for number, row in zip(bucket, marginals, strict=True):
            values = self._sum(number, self._operands(number))
            scaled = torch.mul(values, 1 / self.weights[number], out=self._scaled[: values.numel()])
            self._log_marginal(number, scaled, shared, row)
        weights = shifts.new_tensor([self.weights[number] for number in bucket])[:, None]
        mean = (weights * marginals).sum(0)
        # A shared state that one mini-bucket rules out is ruled out for all of them.
        change = (mean - marginals).mul_(weights)
        shifts.copy_(change.masked_fill_(mean == -math.inf, -math.inf))

    # -- down ----------------------------------------------------------------------------------

    def down(self) -> dict[int, Slopes]:
        """Return the slopes of the bound, which must be finite, where the last pass up was."""
        found = {}
        for variable in reversed(range(len(self.plan.buckets))):
            bucket = self.plan.buckets[variable]
            is_split = len(bucket) > 1
            entropies = []
            marginals = torch.empty_like(self.shifts[variable]) if is_split else None
            for place, number in enumerate(bucket):
                belief = self._log_belief(number)
                for child in self.plan.mini_buckets[number].children:
                    self._send_down(number, child, belief)
                if marginals is not None:
                    self._log_marginal(number, belief, self.plan.shared[variable], marginals[place])
                    joint = torch.exp(belief, out=self._unused_buffer(belief))
                    entropy = float(torch.special.entr(joint, out=joint).sum())
                    entropies.append(entropy - self._front_entropy[number])
            if marginals is not None:
                found[variable] = Slopes(marginals.exp_(), marginals.new_tensor(entropies))
        return found

    def _send_down(self, number: int, child: int, belief: Float[Tensor, "entry"]) -> None:
        above, message = self._from_above[child], self._messages[child].values
        self._log_marginal(number, belief, above.scope, above.values)
        if child in self._shift_of:
            self._front_entropy[child] = float(torch.special.entr(above.values.exp()).sum())
        above.values.mul_(self.weights[child]).sub_(message)
        above.values.masked_fill_(message == -math.inf, -math.inf)  # was -inf + inf

    def _log_belief(self, number: int) -> Float[Tensor, "entry"]:
        """Return (ψ_r + β_r) / w_r, in a buffer of its own."""
        above = self._from_above[number]
        if not above.scope:
            torch.neg(self._messages[number].values, out=above.values)
        values = self._sum(number, [*self._operands(number), above])
        return torch.mul(values, 1 / self.weights[number], out=self._scaled[: values.numel()])

    # -- tables --------------------------------------------------------------------------------

    def table(self, number: int) -> Float[Tensor, "entry"]:
        """ψ_r: what a mini-bucket holds after a pass up; valid until the next call."""
        return self._sum(number, self._operands(number))

    def message(self, number: int) -> Float[Tensor, "entry"]:
        """λ_r, over the mini-bucket's front."""
        return self._messages[number].values

    def _operands(self, number: int) -> list[LogTable]:
        """Factors, messages and shift of a mini-bucket; the variable is first in every scope."""
        mini_bucket = self.plan.mini_buckets[number]
        tables = [self._factors[factor] for factor in mini_bucket.factors]
        tables += [self._messages[child] for child in mini_bucket.children]
        return [*tables, self._shift_of[number]] if number in self._shift_of else tables

    def _sum(self, number: int, tables: list[LogTable]) -> Float[Tensor, "entry"]:
        mini_bucket = self.plan.mini_buckets[number]
        if mini_bucket.factors or mini_bucket.children:
            return add_all(tables, self.plan.sizes, self._buffers)
        return self._buffers[0][: mini_bucket.num_entries].zero_()  # a variable in no factor

    def _unused_buffer(self, values: Float[Tensor, "entry"]) -> Float[Tensor, "entry"]:
        is_first = values.data_ptr() == self._buffers[0].data_ptr()
        return self._buffers[1 if is_first else 0][: values.numel()]

    def _log_marginal(
        self, number: int, values: Float[Tensor, "entry"], keep: Scope, out: Float[Tensor, "kept"]
    ) -> None:
        scope, scratch = self.plan.mini_buckets[number].scope, self._unused_buffer(values)
        log_marginalise(values, scope, keep, self.plan.sizes, scratch, out)
