"""Tables of a Bayesian network from rows with missing cells, by expectation maximisation.

With N_v(s, k) the expected number of rows in which the parents of v are in state s and v in state
k, given what each row shows, and A_v(s, k) pseudo-rows (a Dirichlet prior),

    p(v = k | parents = s)  <-  (N_v(s, k) + A_v(s, k)) / Σ_j (N_v(s, j) + A_v(s, j))

raises  Σ_rows log p(row) + Σ_v Σ_s,k A_v(s, k) log p(k | s)  in every step, and ends after one
where all cells are known. All rows are counted at once (:meth:`RowInference.expected_counts`), or
island by island; where neither fits, counts are drawn
(:mod:`deltaai.learning.tables.drawn_counts`). Rows that are alike are one row with a weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError, ModelError, NotAffordableError
from deltaai.exact import RowInference
from deltaai.graphs import Elimination
from deltaai.learning.tables.cases import Cases, Counted
from deltaai.learning.tables.drawn_counts import DrawnCounts, EstimatedLikelihood
from deltaai.learning.tables.islands import Islands
from deltaai.learning.tables.prior import Prior
from deltaai.learning.tables.row_filler import RowFiller
from deltaai.models import ConditionalTable, ConditionalTableGroup, FactorGraph, Variable
from deltaai.trust import Verdict

_MOST_ENTRIES = 2**24  # of one table
_WORTH_A_LOOK = 1.0  # seconds; where all rows take less, nothing else is tried
_LONGEST_STEP = 100.0  # seconds; where exact counts take longer, they are drawn
_WINDOW, _FARTHEST = 5, 2.0  # steps whose mean objective is compared, and errors that are noise


@dataclass(frozen=True, eq=False)
class TableStep:
    """Where learning stands after a step.

    Parameters
    ----------
    model : the network.
    step : number of steps.
    log_likelihood : mean over the rows, of the network before the step.
    objectives : the same with the prior, which no step may lower; of the last steps too.
    gain : what the step before raised it by; of estimates, each of the last steps, beyond noise.
    surprise : of each variable, its part of the negative log-likelihood as expected.
    has_converged : whether the step gained next to nothing.
    """

    model: FactorGraph
    step: int
    log_likelihood: float
    objectives: tuple[float, ...]
    gain: float
    surprise: tuple[float, ...]
    has_converged: bool = False

    @property
    def objective(self) -> float:
        """That of this step."""
        return self.objectives[-1]


def empty_network(variables: Sequence[Variable], parents: Sequence[Sequence[int]]) -> FactorGraph:
    """A network whose tables are uniform."""
    tables = []
    for child, known in enumerate(parents):
        shape = [variables[v].num_states for v in (*known, child)]
        if math.prod(shape) > _MOST_ENTRIES:
            raise ModelError(
                f"the table of {variables[child].name!r} given {len(known)} parents would have "
                f"{math.prod(shape)} entries: give it fewer parents"
            )
        table = torch.full(shape, -math.log(shape[-1]), dtype=torch.float64, device="cpu")
        names = [variables[v].name for v in known]
        tables.append(ConditionalTable.from_log(variables[child].name, names, table))
    return FactorGraph(variables, tables)


def shaken(model: FactorGraph, share: float, generator: torch.Generator) -> FactorGraph:
    """Mix some of a random table into each, so that variables that are never seen differ."""
    groups = []
    for group in _tables(model):
        random = torch.rand(
            group.tables.shape, dtype=torch.float64, device="cpu", generator=generator
        )
        random = random / random.sum(-1, keepdim=True)
        mixed = (1 - share) * group.tables.exp() + share * random
        groups.append(replace(group, tables=mixed.log()))
    return FactorGraph.from_groups(model.variables, groups)


def num_parameters(model: FactorGraph) -> int:
    """Free numbers in the tables."""
    return sum(
        group.num_factors * (group.table_size - group.table_size // group.sizes[-1])
        for group in model.groups
    )


class CaseCounter:
    """Expected counts of rows, for networks of one structure.

    Parameters
    ----------
    cases : the rows.
    budget : memory and time that may be used.
    beside : what counts other rows for networks of the same structure: if it has a q, that is used.
    seed : of draws, where counts are drawn.
    may_draw : whether they may be.
    """

    def __init__(
        self,
        cases: Cases,
        budget: Budget,
        beside: CaseCounter | None = None,
        seed: int = 0,
        *,
        may_draw: bool = True,
    ) -> None:
        self.cases, self.budget, self._seed, self._may_draw = cases, budget, seed, may_draw
        is_known = (cases.rows >= 0).all(0) if len(cases.rows) else np.zeros(cases.rows.shape[1])
        self._always = [int(v) for v in np.flatnonzero(is_known)]
        self._elimination: Elimination | None = None
        self._islands: Islands | None = None
        self._drawn: DrawnCounts | None = None
        if (
            beside is not None
            and beside._drawn is not None
            and len(self._always) < cases.rows.shape[1]
        ):
            self._drawn = DrawnCounts(cases, beside._drawn.filler)

    @property
    def is_estimated(self) -> bool:
        """Whether counts are drawn."""
        return self._drawn is not None

    def begin(self) -> None:
        """Forget the steps so far: others begin."""
        if self._drawn is not None:
            self._drawn.begin()

    def state(self) -> dict[str, Any] | None:
        """What its next counts depend on besides the tables: nothing, where they are exact."""
        return None if self._drawn is None else self._drawn.state()

    def restore(self, state: Mapping[str, Any], model: FactorGraph) -> None:
        """Take up what :meth:`state` gave, for a network of the same structure."""
        tables = state["filler"]["first"]  # what q looks like depends on them
        groups = [replace(g, tables=t) for g, t in zip(_tables(model), tables, strict=True)]
        self._settle(FactorGraph.from_groups(model.variables, groups))
        if self._drawn is None:
            raise ValueError("draws, where counts are exact")
        self._drawn.restore(state)

    def counted(self, model: FactorGraph) -> Counted:
        """Log-likelihood of the cases, and expected counts for each group of the model."""
        try:
            self._settle(model)
            return self._counted(model)
        except MemoryLimitError as error:
            raise NotAffordableError(
                f"missing cells cannot be filled in exactly with this structure: {error}"
            ) from None

    def _settle(self, model: FactorGraph) -> None:
        """Decide how to count, the first time."""
        if self._elimination is None and self._islands is None and self._drawn is None:
            self._choose(model)

    def _counted(self, model: FactorGraph) -> Counted:
        if self._drawn is not None:
            return self._drawn.counted(model)
        if self._islands is not None:
            return self._islands.counted(model)
        engine = RowInference(
            model,
            self._always,
            memory_limit=self.budget.memory,
            elimination=self._elimination,
        )
        counts = [
            torch.zeros(g.num_factors, *g.sizes, dtype=torch.float64, device="cpu")
            for g in model.groups
        ]
        total = 0.0
        for rows, weights in self.cases.blocks():
            self.budget.check("a step of learning")
            counted = engine.expected_counts(rows, weights)
            total += float((counted.log_partition * weights).sum())
            for sums, more in zip(counts, counted.by_group, strict=True):
                sums.add_(more)
        return Counted(total, tuple(counts))

    def _choose(self, model: FactorGraph) -> None:
        """All rows in one tree of cliques, or island by island, whatever takes less; or draws."""
        limit = self.budget.memory
        seconds, reason = math.inf, None
        try:
            engine = RowInference(model, self._always, memory_limit=limit)
            self._elimination = engine.elimination
            seconds = engine.seconds_a_row * len(self.cases.rows)
        except MemoryLimitError as error:
            reason = error
        if seconds > _WORTH_A_LOOK:
            islands = Islands(model, self.cases, self.budget)
            if (by_islands := islands.seconds(limit)) < seconds:
                self._islands, reason, seconds = islands, None, by_islands
        if seconds > _LONGEST_STEP and self._may_draw:
            self._draw(model, reason)
        elif reason is not None:
            raise reason

    def _draw(self, model: FactorGraph, reason: MemoryLimitError | None) -> None:
        """Count by draws, if a q for that fits; if not, exactly, however long that takes."""
        rows = torch.from_numpy(self.cases.rows[(self.cases.rows < 0).any(1)].astype(np.int64))
        try:
            self._drawn = DrawnCounts(self.cases, RowFiller(model, rows, self.budget, self._seed))
        except NotAffordableError as error:
            if reason is None:
                return
            raise NotAffordableError(
                f"missing cells cannot be filled in exactly with this structure: {reason}; nor by "
                f"draws: {error}"
            ) from None

    def log_likelihood(self, model: FactorGraph) -> float:
        """Mean log-likelihood of the rows."""
        return self.judged(model, is_judged=False).mean

    def judged(self, model: FactorGraph, *, is_judged: bool = True) -> EstimatedLikelihood:
        """Mean log-likelihood of the rows, with its error and how far it can be trusted."""
        self._settle(model)
        if self._drawn is not None:
            return self._drawn.likelihood(model, is_judged=is_judged)
        mean = self.counted(model).log_likelihood / self.cases.num_rows
        return EstimatedLikelihood(mean, 0.0, Verdict("exact"))


def steps_of(
    counter: CaseCounter, model: FactorGraph, prior: Prior, earlier: TableStep | None = None
) -> Iterator[TableStep]:
    """Expectation and maximisation in turn, for ever; what comes first is after one more step.

    Parameters
    ----------
    counter, prior : what rows are expected to show, and the pseudo-rows beside them.
    model : where it begins.
    earlier : the step that led there, if one did.
    """
    step = 0 if earlier is None else earlier.step
    objectives = () if earlier is None else earlier.objectives
    while True:
        found = counter.counted(model)
        num_rows, likelihood = counter.cases.num_rows, found.log_likelihood
        objective = (likelihood + prior.log_density(model)) / num_rows
        objectives = (*objectives, objective)[-2 * _WINDOW :]
        step += 1
        after = maximised(model, found.by_group, prior)
        surprise = _surprise(after, found.by_group)
        yield TableStep(
            after,
            step,
            likelihood / num_rows,
            objectives,
            _gain(objectives, is_estimated=counter.is_estimated),
            tuple(one / num_rows for one in surprise),
        )
        model = after


def _gain(objectives: Sequence[float], *, is_estimated: bool) -> float:
    """What a step raised the objective by; nothing if that cannot be told from noise.

    >>> _gain([1.0, 1.5], is_estimated=False), _gain([1.0, 1.5], is_estimated=True)
    (0.5, inf)
    >>> _gain([1.0, 1.2, 0.9, 1.1, 1.0] * 2, is_estimated=True)
    0.0
    """
    if not is_estimated:
        return objectives[-1] - objectives[-2] if len(objectives) > 1 else math.inf
    if len(objectives) < 2 * _WINDOW:
        return math.inf
    early, late = np.array(objectives[-2 * _WINDOW :]).reshape(2, _WINDOW)
    gain = float(late.mean() - early.mean())
    noise = math.sqrt((early.var(ddof=1) + late.var(ddof=1)) / _WINDOW)
    return gain / _WINDOW if gain > _FARTHEST * noise else 0.0


def maximised(
    model: FactorGraph, counts: Sequence[Float64[Tensor, "..."]], prior: Prior
) -> FactorGraph:
    """The network whose tables fit counts best; uniform where nothing was counted."""
    groups = []
    for group, found, pseudo in zip(_tables(model), counts, prior.counts(model), strict=True):
        total = found + pseudo
        sums = total.sum(-1, keepdim=True)
        uniform = torch.full_like(total, 1 / group.sizes[-1])
        tables = torch.where(sums > 0, total / torch.where(sums > 0, sums, 1.0), uniform)
        groups.append(replace(group, tables=tables.log()))
    return FactorGraph.from_groups(model.variables, groups)


def _tables(model: FactorGraph) -> Iterator[ConditionalTableGroup]:
    for group in model.groups:
        assert isinstance(group, ConditionalTableGroup)
        yield group


def _surprise(model: FactorGraph, counts: Sequence[Tensor]) -> list[float]:
    """Cross-entropy of each variable's table, summed over the rows."""
    found = [0.0] * model.num_variables
    for group, table in zip(model.groups, counts, strict=True):
        terms = torch.where(table > 0, -table * group.log_tables(), 0.0).flatten(1).sum(1)
        for scope, value in zip(group.scopes.tolist(), terms.tolist(), strict=True):
            found[scope[-1]] += value
    return found


def from_known(model: FactorGraph, cases: Cases, prior: Prior) -> FactorGraph:
    """Tables by counting rows in which a variable and all its parents are known: a start."""
    return maximised(model, cases.known_counts(model), prior)
