"""Exact answers for many rows of evidence on one model: log Z and all single marginals.

:class:`~deltaai.exact.ExactInference` takes the evidence out of the model, so every row is a new
model with an order and tables of its own. Here one order serves all rows: evidence multiplies an
indicator into the tables of the observed variables, and every table has one more axis, the rows of
a chunk (:mod:`deltaai.exact.rows.passes`). Variables observed in every row are taken out of the
graph all the same, which makes it narrower; the factors that touch them are looked up for each row.

Rows that may have lost probability below what floating point holds
(:mod:`deltaai.exact.rows.range`) are answered again in log space; a row is called
impossible only if that says so. All of this is float64 on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.budget import default_memory_limit
from deltaai.errors import EvidenceError, MemoryLimitError, StateError
from deltaai.exact.log_tables import flat_index
from deltaai.exact.memory import BYTES_PER_ENTRY, ExactCost, exact_cost
from deltaai.exact.rows.alone import RowAlone
from deltaai.exact.rows.answers import ExpectedCounts, RowAnswers
from deltaai.exact.rows.cliques import best_for_rows, clique_tree, rows_in_chunk, scoped_factors
from deltaai.exact.rows.counts import (
    CliqueCounts,
    factor_counts,
    in_groups,
    observed_counts,
)
from deltaai.exact.rows.passes import RowPasses
from deltaai.exact.rows.range import (
    SAFE_SPREAD,
    UNSCALED_SPREAD,
    clique_spreads,
    drifting,
    log_loss,
)
from deltaai.exact.rows.tables import SplitFactor, largest_of_codes, shared_tables, split_factors
from deltaai.graphs import Elimination, eliminate
from deltaai.models import FactorGraph
from deltaai.threads import Turn

Rows = Int[Tensor, "row var"]  # states, -1 where unknown

_CHUNKS_CODED_TOGETHER = 16
_MOST_LOG_LOSS = math.log(1e-12)


class RowInference:
    """Exact inference for many rows of evidence, within a memory limit.

    Several threads may ask at once: they are answered one after the other, in the same memory.

    Parameters
    ----------
    model : the target.
    always_observed : variables that every row observes.
    memory_limit : bytes the tables may take (default: half of what is free); answers come on top.
    elimination : order to use, over the variables that are not always observed and have more than
        one state, numbered among themselves; found here by default.

    Raises
    ------
    MemoryLimitError
        If not even one row fits; raised before any table is allocated.

    Examples
    --------
    >>> import torch
    >>> from deltaai.models import zoo
    >>> model = zoo.sprinkler()
    >>> [variable.name for variable in model.variables]
    ['cloudy', 'sprinkler', 'rain', 'wet_grass']
    >>> answers = RowInference(model).answer(torch.tensor([[-1, -1, -1, 1], [1, -1, -1, 1]]))
    >>> rain = slice(model.state_offsets[2], model.state_offsets[3])
    >>> answers.marginals[:, rain].round(decimals=4).tolist()
    [[0.2921, 0.7079], [0.0242, 0.9758]]
    """

    def __init__(
        self,
        model: FactorGraph,
        always_observed: Sequence[int] = (),
        *,
        memory_limit: int | None = None,
        elimination: Elimination | None = None,
    ) -> None:
        self.model = model
        self.always_observed = _checked(always_observed, model)
        states: list[int] = model.num_states.tolist()
        observed = frozenset(self.always_observed)
        self.free = tuple(v for v, k in enumerate(states) if k > 1 and v not in observed)
        sizes = [states[v] for v in self.free]
        factors, graph = scoped_factors(model, self.free, self.always_observed)
        if elimination is None:
            self.elimination, self._tree = best_for_rows(graph, factors, sizes)
        else:
            self.elimination = eliminate(graph, elimination.order)
            self._tree = clique_tree(self.elimination, factors, sizes)
        self._order = [self.free[place] for place in self.elimination.order]
        self._sizes = [states[v] for v in self._order]
        self._limit = default_memory_limit() if memory_limit is None else memory_limit
        self.rows_per_chunk, self.cost = self._afford(self._limit)
        self._passes: RowPasses | None = None
        self._turn = Turn()  # at the passes

    @property
    def seconds_a_row(self) -> float:
        """About how long one of many rows takes."""
        return 1e-9 * self._tree.time

    def answer(self, rows: Rows, progress: Callable[[float], None] | None = None) -> RowAnswers:
        """Answer each row exactly.

        Parameters
        ----------
        rows : a state for each variable, -1 where it is unknown.
        progress : called with the fraction of rows done.
        """
        self._check(rows)
        rows = rows.to("cpu", torch.long)
        offsets = self.model.state_offsets.cpu()
        answers = RowAnswers(
            torch.zeros(len(rows), dtype=torch.float64, device="cpu"),
            torch.zeros(len(rows), int(offsets[-1]), dtype=torch.float64, device="cpu"),
            torch.zeros(len(rows), dtype=torch.bool, device="cpu"),
        )
        if not len(rows):
            return answers
        with self._turn:
            self._answer_all(rows, answers, progress)
        self._fill_in_certain(rows, answers)
        self._answer_again(rows, answers)
        return answers

    def _answer_all(
        self, rows: Rows, answers: RowAnswers, progress: Callable[[float], None] | None
    ) -> None:
        """Answer chunk by chunk what the free variables are."""
        passes = self._passes_for(len(rows))
        for place, codes, log_constants in self._chunks(passes, rows, progress):
            passes.run(codes)
            num_rows = place.stop - place.start
            log_partition, is_trusted = self._log_partition(passes, log_constants)
            answers.log_partition[place] = log_partition[:num_rows]
            marginals = passes.marginals / self._totals(passes)[self._variable_of_pair]
            answers.marginals[place, self._pairs] = marginals[:, :num_rows].T
            answers.is_in_log_space[place] = ~is_trusted[:num_rows]

    def expected_counts(
        self,
        rows: Rows,
        weights: Float64[Tensor, "row"] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> ExpectedCounts:
        """Count the joint states of every factor's scope, as expected given each row.

        Parameters
        ----------
        rows : a state for each variable, -1 where it is unknown.
        weights : how often each row counts (default: once).
        progress : called with the fraction of rows done.

        Examples
        --------
        >>> import torch
        >>> from deltaai.models import zoo
        >>> counted = RowInference(zoo.sprinkler()).expected_counts(torch.tensor([[-1, -1, 1, -1]]))
        >>> counted.by_group[0].round(decimals=2).tolist()  # of cloudy, given rain
        [[0.2, 0.8]]
        """
        self._check(rows)
        rows = rows.to("cpu", torch.long)
        if weights is None:
            weights = torch.ones(len(rows), dtype=torch.float64, device="cpu")
        log_partition = torch.zeros(len(rows), dtype=torch.float64, device="cpu")
        with self._turn:
            passes = self._passes_for(max(len(rows), 1))
            counted = CliqueCounts(passes)
            is_counted = self._count_all(passes, counted, rows, weights, log_partition, progress)
        split = factor_counts(counted, passes, self._factors, self._sizes)
        states = self.model.num_states.tolist()
        split |= observed_counts(split, self._factors, rows, weights * is_counted, states)
        by_group = in_groups(self.model, self._factors, split)
        for row in (~is_counted).nonzero().squeeze(1).tolist():
            alone = RowAlone(self.model, rows[row], self._order, self._limit)
            log_partition[row] = alone.log_partition
            alone.add_counts(float(weights[row]), by_group)
        return ExpectedCounts(log_partition, by_group)

    def _count_all(
        self,
        passes: RowPasses,
        counted: CliqueCounts,
        rows: Rows,
        weights: Float64[Tensor, "row"],
        log_partition: Float64[Tensor, "row"],
        progress: Callable[[float], None] | None,
    ) -> Bool[Tensor, "row"]:
        """Count chunk by chunk; says which rows are in."""
        is_counted = torch.zeros(len(rows), dtype=torch.bool, device="cpu")
        for place, codes, log_constants in self._chunks(passes, rows, progress):
            num_rows = place.stop - place.start
            weighing = torch.zeros(passes.rows, dtype=torch.float64, device="cpu")
            weighing[:num_rows] = weights[place]
            kept = counted.copy()
            counted.begin(weighing)
            passes.run(codes, counted)
            found, is_trusted = self._log_partition(passes, log_constants)
            if not bool(is_trusted[:num_rows].all()):
                # One row that overflows spoils the sums of all: once more without such rows.
                counted.restore(kept)
                if bool(is_trusted.any()):
                    instead = codes[:, is_trusted][:, :1]
                    counted.begin(weighing * is_trusted)
                    passes.run(torch.where(is_trusted, codes, instead), counted)
            log_partition[place] = found[:num_rows]
            is_counted[place] = is_trusted[:num_rows]
        return is_counted

    def _chunks(
        self, passes: RowPasses, rows: Rows, progress: Callable[[float], None] | None
    ) -> Iterator[tuple[slice, Int[Tensor, "code row"], Float64[Tensor, "row"]]]:
        """Where each chunk is, its codes and log-constants; the last one repeats its last row."""
        block = passes.rows * _CHUNKS_CODED_TOGETHER
        for start in range(0, len(rows), block):
            codes, log_constants = self._codes(rows[start : start + block])
            for first in range(0, codes.shape[1], passes.rows):
                place = slice(start + first, min(start + first + passes.rows, len(rows)))
                chunk = codes[:, first : first + passes.rows]
                constants = log_constants[first : first + passes.rows]
                missing = passes.rows - chunk.shape[1]
                if missing:
                    chunk = torch.cat((chunk, chunk[:, -1:].expand(-1, missing)), 1)
                    constants = torch.cat((constants, constants[-1:].expand(missing)))
                yield place, chunk, constants
                if progress is not None:
                    progress(place.stop / len(rows))

    # -- before any row ------------------------------------------------------------------------

    def _afford(self, limit: int) -> tuple[int, ExactCost]:
        """Rows in a chunk, and the cost; refuses if not even one row fits."""
        sizes, cliques = self._sizes, self._tree.cliques
        known = [math.prod(sizes[v] for v in clique.known) for clique in cliques]
        shared = sum(group.num_factors * group.table_size for group in self.model.groups)
        shared = 2 * shared + sum(clique.shared_entries(sizes) for clique in cliques)
        each = 3 * max(known, default=1) + 2 * sum(sizes) + _CHUNKS_CODED_TOGETHER * len(known)
        each += sum(clique.entries_of_row(sizes) for clique in cliques)
        # A row may have to be answered in log space.
        alone = exact_cost(
            self.elimination, [len(self.model.variables[v].states) for v in self.free]
        )
        fixed = BYTES_PER_ENTRY * shared + alone.peak_bytes
        wanted = rows_in_chunk(max(known, default=1))
        rows = min(wanted, max((limit - fixed) // (BYTES_PER_ENTRY * each), 1))
        peak = fixed + BYTES_PER_ENTRY * each * rows
        if peak > limit:
            raise MemoryLimitError(self.elimination.width, peak, limit)
        return rows, ExactCost(self.elimination.width, max(known, default=1), sum(known), peak)

    @cached_property
    def _factors(self) -> list[SplitFactor]:
        ranks = {v: rank for rank, v in enumerate(self._order)}
        return split_factors(self.model, ranks, self.always_observed)

    @cached_property
    def _of_rows(self) -> list[SplitFactor]:
        """Factors of rows: those of the cliques in order, then those over no free variable."""
        numbers = [number for clique in self._tree.cliques for number in clique.of_row]
        factors = [self._factors[number] for number in numbers]
        return factors + [f for f in self._factors if f.observed and not f.scope]

    @cached_property
    def _spreads(self) -> list[float]:
        return clique_spreads(self._tree.cliques, self._factors, len(self._sizes))

    def _passes_for(self, num_rows: int) -> RowPasses:
        """Memory for chunks, smaller ones if there are few rows; kept for the next call."""
        rows = min(self.rows_per_chunk, 2 ** (num_rows - 1).bit_length())
        if self._passes is None or self._passes.rows != rows:
            self._passes = None  # free it first
            cliques, sizes = self._tree.cliques, self._sizes
            made = [shared_tables(clique, self._factors, sizes) for clique in cliques]
            constants = [float(f.log_table) for f in self._factors if not (f.scope or f.observed)]
            self._log_constant = math.fsum([*constants, *(taken_out for _, taken_out in made)])
            up = down = [True] * len(cliques)
            if max(self._spreads, default=0.0) <= UNSCALED_SPREAD:
                up, down = drifting(cliques, self._factors, sizes)
            self._passes = RowPasses([tables for tables, _ in made], sizes, rows, up, down)
        return self._passes

    # -- rows ----------------------------------------------------------------------------------

    def _check(self, rows: Rows) -> None:
        self.model.check_states(rows.clamp(min=0))
        if rows.numel() and int(rows.min()) < -1:
            raise StateError(f"a row holds {int(rows.min())}; unknown variables are -1")
        is_missing = rows[:, list(self.always_observed)] < 0
        if bool(is_missing.any()):
            row, place = is_missing.nonzero()[0].tolist()
            name = self.model.variables[self.always_observed[place]].name
            raise EvidenceError(
                f"row {row + 1} does not observe {name!r}, which was said to be always observed"
            )

    def _codes(self, rows: Rows) -> tuple[Int[Tensor, "code row"], Float64[Tensor, "row"]]:
        """Codes of the evidence and of the factors of rows, and the log-constants of the latter."""
        known = rows[:, self._order].T + 1
        one_more = [size + 1 for size in self._sizes]
        codes = [flat_index(known, c.eliminated, one_more) for c in self._tree.cliques]
        log_constants = torch.full(
            (len(rows),), self._log_constant, dtype=torch.float64, device="cpu"
        )
        states, columns = self.model.num_states.tolist(), rows.T
        for factor in self._of_rows:
            codes.append(flat_index(columns, factor.observed, states))
            log_constants += largest_of_codes(factor)[codes[-1]]
        return torch.stack(codes) if codes else torch.zeros(
            0, len(rows), dtype=torch.float32, device="cpu"
        ).long(), log_constants

    def _totals(self, passes: RowPasses) -> Float64[Tensor, "var row"]:
        """Sum of each variable's marginal, as the passes left it."""
        total = torch.zeros(len(self._sizes), passes.rows, dtype=torch.float64, device="cpu")
        return total.index_add_(0, self._variable_of_pair, passes.marginals)

    def _log_partition(
        self, passes: RowPasses, log_constants: Float64[Tensor, "row"]
    ) -> tuple[Float64[Tensor, "row"], Bool[Tensor, "row"]]:
        """Log Z of each row of the chunk that was run, and whether it can be trusted."""
        log_partition = passes.scales.log().sum(0) + log_constants
        total = self._totals(passes)
        is_trusted = log_partition.isfinite() & (total.isfinite() & (total > 0)).all(0)
        is_lossy = [spread > SAFE_SPREAD for spread in self._spreads]
        if any(is_lossy):
            is_trusted &= log_loss(passes, is_lossy) <= _MOST_LOG_LOSS
        return log_partition, is_trusted

    @cached_property
    def _pairs(self) -> Int[Tensor, "pair"]:
        """Place in the model's layout of each pair that the passes compute."""
        offsets = self.model.state_offsets.tolist()
        variables = [self._order[v] for c in self._tree.cliques for v in c.eliminated]
        return torch.tensor(
            [pair for v in variables for pair in range(offsets[v], offsets[v + 1])],
            dtype=torch.long,
            device="cpu",
        )

    @cached_property
    def _variable_of_pair(self) -> Int[Tensor, "pair"]:
        """Variable, counted as the passes do, of each pair that they compute."""
        sizes = [self._sizes[v] for c in self._tree.cliques for v in c.eliminated]
        return torch.arange(len(sizes), device="cpu").repeat_interleave(
            torch.tensor(sizes, dtype=torch.long, device="cpu")
        )

    def _fill_in_certain(self, rows: Rows, answers: RowAnswers) -> None:
        """Variables that are not inferred are certain."""
        inferred = frozenset(self.free)
        certain = [v for v in range(self.model.num_variables) if v not in inferred]
        pairs = self.model.state_offsets.cpu()[certain] + rows[:, certain].clamp(min=0)
        answers.marginals.scatter_(1, pairs, 1.0)

    def _answer_again(self, rows: Rows, answers: RowAnswers) -> None:
        """Answer the rows that cannot be trusted in log space, one by one."""
        for row in answers.is_in_log_space.nonzero().squeeze(1).tolist():
            alone = RowAlone(self.model, rows[row], self._order, self._limit)
            found = alone.marginals()
            answers.log_partition[row] = alone.log_partition
            answers.marginals[row] = math.nan if found is None else found


def _checked(always_observed: Sequence[int], model: FactorGraph) -> tuple[int, ...]:
    for variable in always_observed:
        if not 0 <= variable < model.num_variables:
            raise EvidenceError(
                f"variable {variable} cannot be always observed: the model has variables "
                f"0 to {model.num_variables - 1}"
            )
    return tuple(sorted(set(always_observed)))
