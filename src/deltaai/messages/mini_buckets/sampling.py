"""Samples from mini-bucket messages: no training, importance weights with a known ceiling.

After a pass up (:mod:`deltaai.messages.mini_buckets.passes`), the tables ψ_r of v's mini-buckets
hold what is known of v given the variables eliminated after it. Drawing backwards,

    q(x_v | later) = exp( Σ_r ψ_r - ℓ_v ),    ℓ_v = log Σ_{x_v} exp Σ_r ψ_r,

gives a state with the importance weight

    log w = U + Σ_v ( ℓ_v - Σ_r λ_r )  ≤  U,

where λ_r are the messages and U is the upper bound on log Z. Each bracket is at most zero, by
Hölder's inequality, and zero where nothing was split; if nothing is split anywhere, q is p. So no
weight exceeds exp(U), which few proposals can say of themselves: a part of p with share m of Z is
hit by each draw with probability at least m Z / exp(U), however badly the messages represent it.

Where a bucket was split, particles can be resampled by their weights so far. They do so within
groups that never mix; the mean weights of groups are independent and unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.errors import NotAffordableError, format_bytes
from deltaai.exact import LogTable, sorted_tables
from deltaai.graphs import Elimination, eliminate, min_fill_order
from deltaai.messages.mini_buckets.partition import MiniBucketPlan, largest_affordable_plan
from deltaai.messages.mini_buckets.passes import MiniBucketPasses
from deltaai.models import FactorGraph, States
from deltaai.resampling import resampled
from deltaai.threads import limited_threads
from deltaai.watch import look


@dataclass(frozen=True, eq=False)
class _Lookup:
    """A table that is read at states of some variables.

    Parameters
    ----------
    rows : the variables, by their place in the order.
    strides : step of each in the table.
    values : entries; one row for each state of a variable to be drawn, or one in all.
    """

    rows: Int[Tensor, "place"]
    strides: Float64[Tensor, "place"]
    values: Float64[Tensor, "state entry"]

    def at(self, columns: Float64[Tensor, "var batch"]) -> Float64[Tensor, "state batch"]:
        """Entries that each column points at."""
        if not len(self.rows):
            return self.values.expand(-1, columns.shape[1])
        # A product finds all indices at once; doubles hold them exactly.
        index = (self.strides @ columns.index_select(0, self.rows)).long()
        return self.values.index_select(1, index)


@dataclass(frozen=True, eq=False)
class _Step:
    """How one variable is drawn: its tables, and the messages that stand for them if split."""

    tables: tuple[_Lookup, ...]
    messages: tuple[_Lookup, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of a model's mini-buckets in one order, and what passes messages between them."""

    model: FactorGraph
    elimination: Elimination
    plan: MiniBucketPlan
    passes: MiniBucketPasses
    constant: float

    @classmethod
    def of(
        cls,
        model: FactorGraph,
        elimination: Elimination,
        memory_limit: int,
        most_total_entries: int,
        *,
        i_bound: int | None = None,
        beta: float = 1.0,
    ) -> Tables:
        """Make tables as large as the limits allow; those of :meth:`MessageSampler.build`."""
        factors, constant = sorted_tables(model, elimination.order)
        if beta != 1:
            scaled = [(table.values * beta, table.values == -math.inf) for table in factors]
            factors = [
                LogTable(table.scope, values.masked_fill_(is_zero, -math.inf))
                for table, (values, is_zero) in zip(factors, scaled, strict=True)
            ]
            constant *= beta
        states = model.num_states.tolist()
        plan = largest_affordable_plan(
            [table.scope for table in factors],
            [states[vertex] for vertex in elimination.order],
            memory_limit=memory_limit // 2,  # tables are kept beside what a pass needs
            most_total_entries=most_total_entries,
            most_variables=None if i_bound is None else i_bound + 1,
        )
        if plan.memory > memory_limit:
            raise NotAffordableError(
                f"messages need at least about {format_bytes(plan.memory)} and the memory limit is "
                f"{format_bytes(memory_limit)}; raise the limit"
            )
        return cls(
            model, elimination, plan, MiniBucketPasses(plan, factors, model.device), constant
        )


@dataclass(frozen=True, eq=False)
class MessageSampler:
    """Draws weighted states of a model from mini-bucket messages.

    Parameters
    ----------
    model : the target.
    order : elimination order; states are drawn in its reverse.
    steps : tables of each variable, by its place in the order.
    upper : upper bound on log Z, and on every log weight.
    is_exact : whether nothing was split, so that samples are exact and ``upper`` is log Z.
    """

    model: FactorGraph
    order: tuple[int, ...]
    steps: tuple[_Step, ...]
    upper: float
    is_exact: bool

    @classmethod
    def build(
        cls,
        model: FactorGraph,
        *,
        memory_limit: int,
        most_total_entries: int,
        i_bound: int | None = None,
        elimination: Elimination | None = None,
        beta: float = 1.0,
    ) -> MessageSampler:
        """Pass messages up, in tables as large as the limits allow.

        Parameters
        ----------
        model : the target, without evidence: condition it first.
        memory_limit : bytes that all tables may take.
        most_total_entries : entries of all tables together, which bounds the time.
        i_bound : variables a message may have (default: what the limits allow).
        elimination : the order to use (default: by min-fill, which loses least when split).
        beta : inverse temperature; states and weights are those of p~(x)^beta. The smaller it is,
            the less messages lose. What is impossible stays so.

        Raises
        ------
        NotAffordableError
            If not even the smallest tables fit into memory.
        """
        if elimination is None:
            graph = model.markov_graph()
            elimination = eliminate(graph, min_fill_order(graph))
        tables = Tables.of(
            model, elimination, memory_limit, most_total_entries, i_bound=i_bound, beta=beta
        )
        return cls.drawing_from(tables, tables.passes.up(is_matching=True))

    @classmethod
    def drawing_from(cls, tables: Tables, upper: float) -> MessageSampler:
        """Keep what a pass up has left in its tables."""
        plan, passes = tables.plan, tables.passes
        sizes, device = plan.sizes, tables.model.device
        steps: list[_Step] = []
        for bucket in plan.buckets:
            look()
            kept, messages = [], []
            for number in bucket:
                front, size = plan.mini_buckets[number].front, sizes[len(steps)]
                table = passes.table(number).view(size, -1)
                kept.append(_lookup(front, sizes, table, device))
                if len(bucket) > 1:
                    messages.append(_lookup(front, sizes, passes.message(number)[None], device))
            steps.append(_Step(tuple(kept), tuple(messages)))
        upper += tables.constant
        return cls(tables.model, tables.elimination.order, tuple(steps), upper, plan.is_exact)

    @limited_threads(1)
    def draw(
        self, num_groups: int, group_size: int, generator: torch.Generator
    ) -> tuple[States, Float64[Tensor, "sample"]]:
        """Draw groups of states with log weights; those of one state each are independent.

        Returns
        -------
        States, the ones of a group side by side, and log weights: the mean of the weights in a
        group is an unbiased estimate of Z. Dead ends, which zeros make, have weight zero.
        """
        count, device = num_groups * group_size, self.model.device
        columns = torch.zeros(len(self.order), count, dtype=torch.float64, device=device)
        log_weights = torch.full((count,), self.upper, dtype=torch.float64, device=device)
        for place in reversed(range(len(self.order))):
            step = self.steps[place]
            logits = sum_of(step.tables, columns)
            if step.messages:
                log_weights += logits.logsumexp(0) - sum_of(step.messages, columns)[0]
                # Once impossible, always impossible: -inf less -inf would be no number.
                log_weights.masked_fill_(log_weights.isnan(), -math.inf)
                if group_size > 1:
                    kept = resampled(log_weights.view(num_groups, -1), generator)
                    if kept is not None:
                        columns, logits = columns[:, kept], logits[:, kept]
            columns[place] = _drawn(logits, generator)
        states = torch.empty(count, len(self.order), dtype=torch.long, device=device)
        states[:, list(self.order)] = columns.T.long()
        return states, log_weights


def _lookup(
    front: tuple[int, ...],
    sizes: tuple[int, ...],
    values: Float64[Tensor, "state entry"],
    device: torch.device,
) -> _Lookup:
    strides = [math.prod(sizes[v] for v in front[place + 1 :]) for place in range(len(front))]
    return _Lookup(
        torch.tensor(front, dtype=torch.long, device=device),
        torch.tensor(strides, dtype=torch.float64, device=device),
        values.clone(),
    )


def sum_of(
    tables: tuple[_Lookup, ...], columns: Float64[Tensor, "var batch"]
) -> Float64[Tensor, "state batch"]:
    """Entries of several tables, added up."""
    first, *others = tables
    total = first.at(columns)
    for table in others:
        total = total + table.at(columns)
    return total


def _drawn(
    logits: Float64[Tensor, "state batch"], generator: torch.Generator
) -> Float64[Tensor, "batch"]:
    """A state for each column; any one where none is possible, as its weight is zero then."""
    uniform = torch.rand(
        logits.shape[1], generator=generator, dtype=torch.float64, device=logits.device
    )
    cumulative = logits.softmax(0).nan_to_num(1.0).cumsum(0)
    # Just below the total, so that rounding cannot reach a last state of probability 0.
    threshold = uniform * (1 - 2**-52) * cumulative[-1]
    return (cumulative[:-1] <= threshold).sum(0).double()
