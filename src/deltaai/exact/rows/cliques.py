"""Cliques for many rows of evidence: which variables to eliminate together, and at what cost.

Elimination gives one clique a variable. For rows that is too fine: with a batch of rows behind
every table entry, tables are small, each operation has a fixed price, and a product of matrices is
far cheaper than many passes over memory. So neighbouring cliques are merged as long as a model of
the time says that it pays. A clique then

- *eliminates* some variables, and is left with its *separator*, the scope of its message;
- *knows* the variables of the messages it gets, and those it eliminates, whose evidence enters;
- meets the rest of its separator, the *new* variables, only in factors that all rows share,

and its message is one matrix product over the known variables, as
:mod:`deltaai.exact.rows.passes` explains. Nothing here holds a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from deltaai.exact.log_tables import Scope
from deltaai.graphs import (
    Elimination,
    UndirectedGraph,
    best_elimination,
    eliminate,
    min_fill_order,
    min_weight_order,
    sweep_order,
)
from deltaai.models import FactorGraph

# A model of the time, in nanoseconds a row, fitted by benchmarks/rows_speed.py.
_PASS = 0.3  # one more pass over a table entry
_MULTIPLY = 0.1  # one multiplication in a matrix product
_CLIQUE = 60_000.0  # the fixed price of a clique's operations, shared by the rows of a chunk
# The largest table of a chunk, 1 MiB, should stay in the cache, but the innermost loops need some
# rows. Small models gain from more rows, until the fixed price is spread out.
_CHUNK_ENTRIES = 2**17
_FEWEST_ROWS, _MOST_ROWS = 32, 2048
# Joint states of evidence (unknown counts as one) times joint states, of variables eliminated
# together: this table is looked up for every row.
_MOST_EVIDENCE = 2**14
_SMALL_TABLE = 256  # merging may make tables of this size, but no larger ones than there are
_MOST_TRIES = 32
_MOST_WORK = 200_000  # set operations on neighbours, in all tries
_LOG2_NO_MORE_TRIES = 24  # orders of larger total are not searched further: too slow for rows


@dataclass(frozen=True)
class ScopedFactor:
    """Where a factor stands: its inferred variables, ascending, and whether rows change it."""

    scope: Scope
    is_of_row: bool


def scoped_factors(
    model: FactorGraph, free: Sequence[int], always_observed: Sequence[int]
) -> tuple[list[ScopedFactor], UndirectedGraph]:
    """Scopes of a model's factors over its free variables, and the graph they make."""
    place = {v: number for number, v in enumerate(free)}
    selecting = {v for v in always_observed if model.variables[v].num_states > 1}
    factors, edges = [], []
    for group in model.groups:
        for scope in group.scopes.tolist():
            inferred = tuple(sorted(place[v] for v in scope if v in place))
            factors.append(ScopedFactor(inferred, not selecting.isdisjoint(scope)))
            edges += [(u, v) for u in inferred for v in inferred if u < v]
    return factors, UndirectedGraph.from_edges(len(free), edges)


@dataclass(frozen=True)
class Clique:
    """Variables that are eliminated together.

    Parameters
    ----------
    eliminated : variables summed out here, ascending.
    separator : scope of the message, ascending.
    children : cliques whose messages come in; at most two.
    new : variables of the separator that come in by shared factors only.
    selecting : kept variables that those factors depend on too.
    others : all other known variables that are kept.
    weighed : scope of the evidence and of all other factors of this clique.
    outgoing, inside, of_row : numbers of the factors here: shared ones that touch new variables,
        other shared ones, and those that differ between rows.
    """

    eliminated: Scope
    separator: Scope
    children: tuple[int, ...]
    new: Scope = ()
    selecting: Scope = ()
    others: Scope = ()
    weighed: Scope = ()
    outgoing: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    of_row: tuple[int, ...] = ()

    @property
    def known(self) -> Scope:
        """Scope of the product of messages, evidence and factors of the row, in order of axes."""
        return (*self.selecting, *self.eliminated, *self.others)

    @property
    def message(self) -> Scope:
        """The separator in order of axes."""
        return (*self.selecting, *self.new, *self.others)

    def entries_of_row(self, sizes: Sequence[int]) -> int:
        """Table entries kept for each row: message, evidence, weight, belief and scales."""
        scopes = (self.message, self.eliminated, self.weighed, self.weighed)
        return sum(math.prod(sizes[v] for v in scope) for scope in scopes) + 3 + len(self.of_row)

    def shared_entries(self, sizes: Sequence[int]) -> int:
        """Table entries that all rows share: evidence, factors inside twice, and outgoing twice."""
        evidence = math.prod(sizes[v] * (sizes[v] + 1) for v in self.eliminated)
        weighed = math.prod(sizes[v] for v in self.weighed)
        outgoing = (*self.selecting, *self.new, *self.eliminated) if self.new else ()
        single_states = sum(sizes[v] for v in self.eliminated) * weighed
        matrices = math.prod(sizes[v] for v in outgoing)
        return evidence + 2 * weighed + single_states + 2 * matrices


@dataclass(frozen=True)
class CliqueTree:
    """Cliques, children before parents, and the estimated time in nanoseconds a row."""

    cliques: tuple[Clique, ...]
    time: float


def rows_in_chunk(largest: int) -> int:
    """Rows to work on at once if the largest table has this many entries."""
    return min(max(_CHUNK_ENTRIES // largest, _FEWEST_ROWS), _MOST_ROWS)


class _Draft:
    """Cliques while they are being merged."""

    def __init__(
        self, fronts: Sequence[Scope], factors: Sequence[ScopedFactor], sizes: Sequence[int]
    ) -> None:
        self.sizes = sizes
        self.scoped = factors
        self.eliminated: list[Scope] = [(v,) for v in range(len(fronts))]
        self.separators = list(fronts)
        self.parents = [front[0] if front else -1 for front in fronts]
        self.children: list[list[int]] = [[] for _ in fronts]
        self.factors: list[list[int]] = [[] for _ in fronts]
        for clique, parent in enumerate(self.parents):
            if parent >= 0:
                self.children[parent].append(clique)
        for number, factor in enumerate(factors):
            if factor.scope:
                self.factors[factor.scope[0]].append(number)
        largest = max((self.size(self.known(v)) for v in range(len(fronts))), default=1)
        self.largest = max(largest, _SMALL_TABLE)
        self.fixed = _CLIQUE / rows_in_chunk(largest)
        self.times = [self.time(v) for v in range(len(fronts))]

    def size(self, scope: Scope | set[int]) -> int:
        return math.prod(self.sizes[v] for v in scope)

    def known(self, clique: int, other: int = -1) -> set[int]:
        """Variables in the messages, evidence and row's factors of one clique or of two merged."""
        both = (clique,) if other < 0 else (clique, other)
        known: set[int] = set()
        for one in both:
            known.update(self.eliminated[one])
            for child in self.children[one]:
                if child not in both:
                    known.update(self.separators[child])
            for number in self.factors[one]:
                if self.scoped[number].is_of_row:
                    known.update(self.scoped[number].scope)
        return known

    def time(self, clique: int, below: int = -1) -> float:
        """Nanoseconds a row that a clique takes, or would take merged with one below it."""
        known = self.known(clique, below)
        separator = self.separators[clique]
        entries = self.size(known)
        message = self.size(separator)
        joint = self.size(known.union(separator))
        num_children = len(self.children[clique])
        if below >= 0:
            num_children += len(self.children[below]) - 1
        passes = (1 + 4 * num_children) * entries + 2 * message
        multiplications = 2 * joint if any(v not in known for v in separator) else 0
        return _PASS * passes + _MULTIPLY * multiplications + self.fixed

    def may_merge(self, clique: int, parent: int) -> bool:
        together = self.eliminated[clique] + self.eliminated[parent]
        evidence = math.prod(self.sizes[v] * (self.sizes[v] + 1) for v in together)
        return evidence <= _MOST_EVIDENCE and self.size(self.known(parent, clique)) <= self.largest

    def merge(self) -> None:
        """Merge cliques into those above them while that saves time."""
        is_changing = True
        while is_changing:
            is_changing = False
            for clique in range(len(self.eliminated)):
                parent = self.parents[clique]
                if not self.eliminated[clique] or parent < 0:
                    continue
                if not self.may_merge(clique, parent):
                    continue
                time = self.time(parent, clique)
                if time < self.times[parent] + self.times[clique]:
                    self.join(clique, parent)
                    self.times[parent], self.times[clique] = time, 0.0
                    is_changing = True

    def join(self, clique: int, parent: int) -> None:
        self.eliminated[parent] = tuple(sorted(self.eliminated[clique] + self.eliminated[parent]))
        self.eliminated[clique] = ()
        self.children[parent].remove(clique)
        self.children[parent] += self.children[clique]
        self.factors[parent] += self.factors[clique]
        for child in self.children[clique]:
            self.parents[child] = parent

    def finished(self) -> CliqueTree:
        """Number the cliques anew, and let messages join two at a time, small ones first."""
        cliques: list[Clique] = []
        number: dict[int, int] = {}
        for draft, eliminated in enumerate(self.eliminated):
            if not eliminated:
                continue
            waiting = sorted(
                (self.size(self.separators[child]), number[child]) for child in self.children[draft]
            )
            while len(waiting) > 2:
                (_, first), (_, second), *waiting = waiting
                union = tuple(sorted({*cliques[first].separator, *cliques[second].separator}))
                cliques.append(Clique((), union, (first, second), others=union))
                waiting = sorted([*waiting, (self.size(union), len(cliques) - 1)])
            number[draft] = len(cliques)
            cliques.append(self.clique(draft, tuple(child for _, child in waiting)))
        return CliqueTree(tuple(cliques), math.fsum(self.times))

    def clique(self, draft: int, children: tuple[int, ...]) -> Clique:
        """Sort the variables and factors of a clique by the part they play."""
        eliminated, separator = self.eliminated[draft], self.separators[draft]
        known = self.known(draft)
        new = tuple(v for v in separator if v not in known)
        parts: dict[str, list[int]] = {"outgoing": [], "inside": [], "of_row": []}
        for number in self.factors[draft]:
            factor = self.scoped[number]
            is_outgoing = not known.issuperset(factor.scope)
            part = "of_row" if factor.is_of_row else "outgoing" if is_outgoing else "inside"
            parts[part].append(number)
        out = self.touched(parts["outgoing"])
        weighed = self.touched(parts["inside"] + parts["of_row"]).union(eliminated)
        selecting = tuple(v for v in separator if v in known and v in out)
        others = tuple(v for v in separator if v in known and v not in out)
        return Clique(
            eliminated,
            separator,
            children,
            new,
            selecting,
            others,
            tuple(v for v in (*selecting, *eliminated, *others) if v in weighed),
            **{name: tuple(numbers) for name, numbers in parts.items()},
        )

    def touched(self, factors: Sequence[int]) -> set[int]:
        return set(chain.from_iterable(self.scoped[number].scope for number in factors))


def clique_tree(
    elimination: Elimination, factors: Sequence[ScopedFactor], num_states: Sequence[int]
) -> CliqueTree:
    """Merge the cliques of an elimination; variables of the result are places in its order.

    Parameters
    ----------
    elimination : an order and its fronts.
    factors : the factors, over the vertices of the graph.
    num_states : numbers of states of the vertices.
    """
    rank = {vertex: place for place, vertex in enumerate(elimination.order)}
    fronts = [tuple(rank[u] for u in elimination.fronts[v]) for v in elimination.order]
    scoped = [
        ScopedFactor(tuple(sorted(rank[v] for v in factor.scope)), factor.is_of_row)
        for factor in factors
    ]
    draft = _Draft(fronts, scoped, [num_states[v] for v in elimination.order])
    draft.merge()
    return draft.finished()


def best_for_rows(
    graph: UndirectedGraph,
    factors: Sequence[ScopedFactor],
    num_states: Sequence[int],
    seed: int = 0,
) -> tuple[Elimination, CliqueTree]:
    """Try several orders and keep the one whose merged cliques take the least time."""
    best = best_elimination(graph, num_states)
    found = [best]
    if best.cost(num_states)[0] <= _LOG2_NO_MORE_TRIES:
        degrees = np.diff(graph.offsets)
        tries = min(_MOST_TRIES, _MOST_WORK // max(int((degrees * degrees).sum()), 1))
        rng = np.random.default_rng(seed)
        orders = [sweep_order(graph)]
        for turn in range(tries):
            is_fill = turn % 2 == 0
            orders.append(
                min_fill_order(graph, rng) if is_fill else min_weight_order(graph, num_states, rng)
            )
        found += [eliminate(graph, order) for order in orders]
    trees = [(one, clique_tree(one, factors, num_states)) for one in found]
    return min(trees, key=lambda pair: pair[1].time)
