"""An upper bound on log Z for models too wide for exact elimination.

Weighted mini-bucket elimination: buckets are split so that no table is beyond a limit, which gives
a bound instead of log Z (:mod:`deltaai.messages.mini_buckets.passes`). Three things make it tight,
in this order: large tables, so the limit is the largest that memory and time allow; the order of
elimination, so several are tried, with one matched pass each, and the best is kept; and the shifts
and weights, in which the bound is convex, so they are found by a quasi-Newton method. Every number
on the way is a bound, and the lowest is returned.

There is no lower bound here: Hölder's inequality reversed needs negative weights, under which a
zero in a factor makes it -inf. Any state's log score is one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from deltaai.errors import ConfigError, TimeLimitError, format_bytes
from deltaai.exact import Remainder, default_memory_limit, sorted_tables
from deltaai.graphs import (
    Elimination,
    UndirectedGraph,
    best_elimination,
    eliminate,
    min_fill_order,
    min_weight_order,
)
from deltaai.messages.mini_buckets.partition import MiniBucketPlan, largest_affordable_plan
from deltaai.messages.mini_buckets.passes import MiniBucketPasses
from deltaai.messages.mini_buckets.tightening import tighten
from deltaai.models import Evidence, FactorGraph, on_cpu

Progress = Callable[[float], None]  # called with the fraction of the work that is done

# Above, counting the edges that min-fill would add takes longer than the bound.
_MOST_MIN_FILL_WORK = 20_000_000


@dataclass(frozen=True)
class PartitionBound:
    """An upper bound on log Z, and what it took.

    Parameters
    ----------
    upper : log Z is at most this, up to rounding; -inf if no state is possible.
    i_bound : variables of the largest message that was sent.
    width : variables of the largest message that exact elimination in the same order sends.
    is_exact : whether nothing was split, so that the bound is log Z itself.
    memory : bytes of all tables, as predicted.
    seconds : time taken.
    """

    upper: float
    i_bound: int
    width: int
    is_exact: bool
    memory: int
    seconds: float


def mini_bucket_bound(
    model: FactorGraph,
    evidence: Evidence | None = None,
    *,
    memory_limit: int | None = None,
    i_bound: int | None = None,
    num_orders: int = 16,
    order: Sequence[int] | None = None,
    num_iterations: int = 40,
    most_total_entries: int = 2**23,
    seed: int = 0,
    progress: Progress | None = None,
) -> PartitionBound:
    """Bound log Z from above; with evidence, the log of the sum over the states that agree.

    Parameters
    ----------
    model : the target.
    evidence : names to labels or state indices of the observed variables.
    memory_limit : bytes the tables may take (default: half of what is free).
    i_bound : variables a message may have (default: what memory and time allow). A factor's own
        table is always allowed.
    num_orders : elimination orders to try.
    order : the only one to take, if it is known, of a question without evidence.
    num_iterations : times the bound and its slopes are computed to tighten it; 0 leaves it at what
        matching gives.
    most_total_entries : entries of all tables together, which bounds the time of a pass: some
        50 nanoseconds an entry.
    seed : for the tie-breaks of the orders.
    progress : called with the fraction done; if it raises ``TimeLimitError``, the best bound so far
        is returned, if there is one.

    Raises
    ------
    ConfigError
        If a setting is out of range, or not even the smallest tables fit into memory.
    ImpossibleEvidenceError
        If the evidence alone makes a factor zero.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=6, sigma=0.5, seed=0)
    >>> bound, exact = mini_bucket_bound(model, i_bound=3), mini_bucket_bound(model)
    >>> bound.is_exact, exact.is_exact, bound.upper > exact.upper
    (False, True, True)
    """
    _check(i_bound=i_bound, num_orders=num_orders, most_total_entries=most_total_entries)
    start = time.perf_counter()
    limit = default_memory_limit() if memory_limit is None else memory_limit
    reduced = on_cpu(Remainder.of(model, evidence).reduced)
    states = reduced.num_states.tolist()
    graph = reduced.markov_graph()
    if order is None:
        eliminations = _eliminations(graph, states, num_orders, seed)
    else:
        eliminations, num_orders = iter([eliminate(graph, order)]), 1
    steps = num_orders + max(num_iterations, 0)

    def report(done: int) -> None:
        if progress is not None:
            progress(min(done / steps, 1.0))

    best: tuple[float, Elimination, MiniBucketPlan] | None = None
    is_late = True
    with suppress(TimeLimitError):
        for tried, elimination in enumerate(eliminations):
            factors, constant = sorted_tables(reduced, elimination.order)
            plan = largest_affordable_plan(
                [table.scope for table in factors],
                [states[vertex] for vertex in elimination.order],
                memory_limit=limit,
                most_total_entries=most_total_entries,
                most_variables=None if i_bound is None else i_bound + 1,
            )
            if plan.memory > limit:
                raise ConfigError(
                    f"a bound needs at least about {format_bytes(plan.memory)} and the memory "
                    f"limit is {format_bytes(limit)}; raise the limit"
                )
            upper = constant + MiniBucketPasses(plan, factors, reduced.device).up(is_matching=True)
            if best is None or plan.is_exact or upper < best[0]:
                best = (upper, elimination, plan)
            report(tried + 1)
            if plan.is_exact or upper == -math.inf:
                break
        is_late = False
    if best is None:
        raise TimeLimitError("the bound", time.perf_counter() - start)
    upper, elimination, plan = best
    if not (is_late or plan.is_exact) and upper > -math.inf and num_iterations > 0:
        factors, constant = sorted_tables(reduced, elimination.order)
        passes = MiniBucketPasses(plan, factors, reduced.device)
        with suppress(TimeLimitError):
            tightened = tighten(passes, num_iterations, lambda done: report(num_orders + done))
            upper = min(upper, constant + tightened)
    if progress is not None and not is_late:
        with suppress(TimeLimitError):
            report(steps)
    seconds = time.perf_counter() - start
    return PartitionBound(
        upper, plan.i_bound, elimination.width, plan.is_exact, plan.memory, seconds
    )


def _check(*, i_bound: int | None, num_orders: int, most_total_entries: int) -> None:
    for name, value in (
        ("i_bound", i_bound),
        ("num_orders", num_orders),
        ("most_total_entries", most_total_entries),
    ):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; it must be at least 1")


def _eliminations(
    graph: UndirectedGraph, states: list[int], count: int, seed: int
) -> Iterator[Elimination]:
    """The narrowest elimination first, which may be exact; then greedy ones, ties at random.

    Greedy orders cut a model into patches, which lose less when they are split than the long
    fronts of a sweep, even where the sweep is narrower.
    """
    yield best_elimination(graph, states)
    rng = np.random.default_rng(seed)
    degree = np.diff(graph.offsets)
    has_min_fill = int((degree * degree).sum()) <= _MOST_MIN_FILL_WORK
    for tried in range(1, count):
        ties = rng if tried > 2 else None
        if has_min_fill and tried % 2:
            yield eliminate(graph, min_fill_order(graph, ties))
        else:
            yield eliminate(graph, min_weight_order(graph, states, ties))
