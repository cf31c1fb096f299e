"""Which functions meet in which mini-bucket: the plan of a bound, before any table is made.

Elimination puts all functions of a variable v into one bucket, a table over v and its front, which
may be far too large. Here the bucket is split: its functions (factors, and messages from below) go
into *mini-buckets*, each over a scope within a limit. Greedy: the largest function first, each to
the mini-bucket that grows least, a new one if none stays within the limit. A function that is
itself beyond the limit has a mini-bucket alone, since its table exists already.

The plan follows from scopes and numbers of states only, so what it costs is known exactly, and the
largest limit that memory and time allow is found by trying plans. Variables are numbered by their
place in the elimination order, as in :mod:`deltaai.exact.log_tables`. The numbers are computed in
:mod:`deltaai.messages.mini_buckets.passes`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

from deltaai.exact import Scope
from deltaai.watch import look

BYTES_PER_ENTRY = 8
# Tables of the largest size that a pass works in: two to add up in, one scaled by its weight, and
# up to two more that torch makes inside.
WORKING_TABLES = 5
# Vectors as long as all shifts together: those of the passes, and the memory of the minimiser.
SHIFT_VECTORS = 32
# Longer shifts would cost more to improve than they gain.
_MOST_SHIFT_ENTRIES = 2**12
Planned = TypeVar("Planned")
_LARGEST_EXPONENT = 40  # tables of 2**40 entries fit nowhere, so no limit beyond is tried


class _Function(NamedTuple):
    """A factor, or the message of a mini-bucket, that waits in a bucket."""

    scope: Scope
    factor: int = -1
    child: int = -1


@dataclass(frozen=True)
class MiniBucket:
    """Functions that are added up over one scope, from which a variable is then summed out.

    Parameters
    ----------
    scope : variables of the table, ascending; the first is the one summed out.
    factors : numbers of the factors in it.
    children : numbers of the mini-buckets whose messages go into it.
    num_entries : entries of the table.
    """

    scope: Scope
    factors: tuple[int, ...]
    children: tuple[int, ...]
    num_entries: int

    @property
    def front(self) -> Scope:
        """Variables of the message."""
        return self.scope[1:]


@dataclass(frozen=True, eq=False)
class MiniBucketPlan:
    """All mini-buckets, and which of them share a variable.

    Parameters
    ----------
    sizes : number of states of each variable.
    mini_buckets : in the order of elimination.
    buckets : for each variable, the numbers of its mini-buckets.
    factor_entries : entries of all factors together.
    """

    sizes: tuple[int, ...]
    mini_buckets: tuple[MiniBucket, ...]
    buckets: tuple[range, ...]
    factor_entries: int

    @property
    def is_exact(self) -> bool:
        """Whether no bucket is split, so that the bound is log Z itself."""
        return not self.split

    @property
    def i_bound(self) -> int:
        """Variables of the largest message."""
        return max((len(mini_bucket.front) for mini_bucket in self.mini_buckets), default=0)

    @property
    def largest_table(self) -> int:
        """Entries of the largest mini-bucket."""
        return max((mini_bucket.num_entries for mini_bucket in self.mini_buckets), default=1)

    @cached_property
    def total_entries(self) -> int:
        """Entries of all mini-buckets; the time of a pass is proportional to it."""
        return sum(mini_bucket.num_entries for mini_bucket in self.mini_buckets)

    @cached_property
    def shared(self) -> tuple[Scope, ...]:
        """For each variable, what all its mini-buckets have in common: the variable, at least.

        If that is too large, the variables that are eliminated next are kept.
        """
        found = []
        for bucket in self.buckets:
            first, *others = (self.mini_buckets[number].scope for number in bucket)
            common = [v for v in first if all(v in scope for scope in others)]
            entries = list(accumulate((self.sizes[v] for v in common), operator.mul))
            kept = sum(number <= _MOST_SHIFT_ENTRIES for number in entries)
            found.append(tuple(common[: max(kept, 1)]))
        return tuple(found)

    @cached_property
    def split(self) -> tuple[int, ...]:
        """Variables with more than one mini-bucket."""
        return tuple(v for v, bucket in enumerate(self.buckets) if len(bucket) > 1)

    def message_entries(self, number: int) -> int:
        """Entries of a mini-bucket's message."""
        mini_bucket = self.mini_buckets[number]
        return mini_bucket.num_entries // self.sizes[mini_bucket.scope[0]]

    def shared_entries(self, variable: int) -> int:
        """Entries of a table over the scope that a variable's mini-buckets share."""
        return _entries(self.shared[variable], self.sizes)

    @cached_property
    def memory(self) -> int:
        """Bytes of all tables that a bound holds at once."""
        messages = sum(self.message_entries(number) for number in range(len(self.mini_buckets)))
        entries = self.factor_entries + messages + WORKING_TABLES * self.largest_table
        if not self.is_exact:
            shifts = sum(len(self.buckets[v]) * self.shared_entries(v) for v in self.split)
            entries += messages + SHIFT_VECTORS * shifts
        return BYTES_PER_ENTRY * entries


def plan_mini_buckets(
    scopes: Sequence[Scope],
    sizes: Sequence[int],
    *,
    most_entries: int | None = None,
    most_variables: int | None = None,
) -> MiniBucketPlan:
    """Sort factors into mini-buckets within limits on a table's entries and variables.

    >>> square = [(0, 1), (1, 2), (2, 3), (0, 3)]
    >>> [m.scope for m in plan_mini_buckets(square, [2] * 4, most_variables=2).mini_buckets]
    [(0, 1), (0, 3), (1, 2), (2, 3), (3,)]
    """

    def is_allowed(scope: Scope) -> bool:
        return (most_entries is None or _entries(scope, sizes) <= most_entries) and (
            most_variables is None or len(scope) <= most_variables
        )

    waiting: list[list[_Function]] = [[] for _ in sizes]
    for number, scope in enumerate(scopes):
        waiting[scope[0]].append(_Function(scope, factor=number))
    made: list[MiniBucket] = []
    buckets: list[range] = []
    for variable, functions in enumerate(waiting):
        look()
        start = len(made)
        for scope, members in _partition(variable, functions, sizes, is_allowed):
            if len(scope) > 1:
                waiting[scope[1]].append(_Function(scope[1:], child=len(made)))
            factors = tuple(member.factor for member in members if member.factor >= 0)
            children = tuple(member.child for member in members if member.child >= 0)
            made.append(MiniBucket(scope, factors, children, _entries(scope, sizes)))
        buckets.append(range(start, len(made)))
    factor_entries = sum(_entries(scope, sizes) for scope in scopes)
    return MiniBucketPlan(tuple(sizes), tuple(made), tuple(buckets), factor_entries)


def _partition(
    variable: int,
    functions: list[_Function],
    sizes: Sequence[int],
    is_allowed: Callable[[Scope], bool],
) -> list[tuple[Scope, list[_Function]]]:
    """Split the functions of one bucket; a variable in no function is uniform, and alone."""
    found: list[tuple[Scope, list[_Function]]] = []
    for function in sorted(functions, key=lambda function: -_entries(function.scope, sizes)):
        choices = []
        for place, (scope, _) in enumerate(found):
            union = tuple(sorted({*scope, *function.scope}))
            if len(union) == len(scope) or is_allowed(union):
                choices.append((_entries(union, sizes) / _entries(scope, sizes), place, union))
        if choices:
            _, place, union = min(choices)
            found[place] = (union, [*found[place][1], function])
        else:
            found.append((function.scope, [function]))
    return found or [((variable,), [])]


def _entries(scope: Scope, sizes: Sequence[int]) -> int:
    return math.prod(sizes[variable] for variable in scope)


def largest_affordable_plan(
    scopes: Sequence[Scope],
    sizes: Sequence[int],
    *,
    memory_limit: int,
    most_total_entries: int,
    most_variables: int | None = None,
) -> MiniBucketPlan:
    """Find the largest tables that memory and time allow.

    The limit on a table's entries is a power of two. Twice as large tables have twice as many
    entries in all, or nearly, so the search begins where all entries are shared out evenly. If none
    is found, small tables may be to blame, since the more is split the more there is to match: then
    the smallest that fit into memory are taken. A plan beyond the limits is returned if all are.
    """

    def plan(exponent: int) -> MiniBucketPlan:
        return plan_mini_buckets(
            scopes, sizes, most_entries=2**exponent, most_variables=most_variables
        )

    def is_affordable(one: MiniBucketPlan) -> bool:
        return one.memory <= memory_limit and one.total_entries <= most_total_entries

    share = max(most_total_entries // max(len(sizes), 1), 1)
    _, best = largest_affordable(plan, is_affordable, lambda one: one.mini_buckets, share)
    if best.memory <= memory_limit:
        return best
    others = map(plan, range(1, _LARGEST_EXPONENT))
    return next((other for other in others if other.memory <= memory_limit), best)


def largest_affordable(
    tried: Callable[[int], Planned],
    is_affordable: Callable[[Planned], bool],
    contents: Callable[[Planned], object],
    entries: int,
) -> tuple[int, Planned]:
    """The largest tables that are affordable, by powers of two; the smallest if none are.

    Parameters
    ----------
    tried : a plan with tables of 2**n entries at most.
    contents : of a plan: when larger tables change nothing the search ends.
    entries : of a table, where the search begins.
    """
    exponent = min(max(round(math.log2(entries)), 0), _LARGEST_EXPONENT)
    found = tried(exponent)
    if not is_affordable(found):
        while exponent and not is_affordable(found):
            exponent -= 1
            found = tried(exponent)
        return exponent, found
    while exponent < _LARGEST_EXPONENT:
        larger = tried(exponent + 1)
        if not is_affordable(larger) or contents(larger) == contents(found):
            break
        exponent, found = exponent + 1, larger
    return exponent, found
