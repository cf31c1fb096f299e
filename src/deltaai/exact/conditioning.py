"""Exact answers for models whose tables do not fit: condition on a cutset, sum over its states.

With C a cutset and Z(c) the partition function of the model with x_C = c fixed,

    Z      = Σ_c Z(c)
    p(x_v) = Σ_c Z(c) p(x_v | c) / Z

and a most likely state is the best of those given c. Each is exact inference on a smaller model, so
memory is that of one of them, and time grows with the number of joint states. The variables of C
are fixed one after the other, depth first, and zeros are propagated after each: impossible branches
end early, variables that became certain need no summing, and a branch that fits already is answered
as it is, with an order of its own.

Finding C is the matter of :mod:`deltaai.exact.cutset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from deltaai.budget import default_memory_limit
from deltaai.errors import EvidenceError, ImpossibleEvidenceError, MemoryLimitError
from deltaai.exact.cutset import Cutset
from deltaai.exact.inference import ExactInference
from deltaai.exact.likeliest import MostLikely
from deltaai.exact.memory import exact_cost
from deltaai.exact.partial_answers import PartialAnswer, PartialBest, Span
from deltaai.graphs import Elimination, best_elimination, eliminate
from deltaai.models import FactorGraph, Reduction, StateIndex, on_cpu, propagate_zeros
from deltaai.progress import Fraction
from deltaai.threads import Turn

_TRIES = 32  # random orders for a branch, fewer where it is cheap

FoundT = TypeVar("FoundT", PartialAnswer, PartialBest)
Ask = Callable[[FactorGraph, Elimination, Span], FoundT]  # of a model that fits


class ConditionedInference:
    """Log Z, all single marginals and a most likely state, exactly, by conditioning on a cutset.

    Nothing is computed before a question is asked; one sweep over the states of the cutset then
    answers for log Z and marginals, another for the most likely state. Several threads may ask at
    once: one of them sweeps and the others wait.

    Parameters
    ----------
    model : the target; condition it first if there is evidence. Or what zeros leave of it, if they
        have been propagated already; answers are about that.
    cutset : what :func:`deltaai.exact.find_cutset` found for it.
    memory_limit : bytes the tables may take (default: half of what is free).
    progress : called with the fraction of the cutset's states that is done.

    Raises
    ------
    MemoryLimitError
        If the model with the cutset fixed would not fit; raised before anything is allocated.

    Examples
    --------
    >>> from deltaai.exact import find_cutset
    >>> from deltaai.models import zoo
    >>> model = zoo.sprinkler().condition({"wet_grass": "yes"})
    >>> cutset = find_cutset(model, memory_limit=160)
    >>> answer = ConditionedInference(model, cutset, memory_limit=160)
    >>> len(cutset.variables), round(float(answer.marginals()["rain"][1]), 4)
    (1, 0.7079)
    """

    def __init__(
        self,
        model: FactorGraph | Reduction,
        cutset: Cutset,
        *,
        memory_limit: int | None = None,
        progress: Fraction | None = None,
    ) -> None:
        self._is_propagated = isinstance(model, Reduction)
        model = model.model if isinstance(model, Reduction) else model
        known = {variable.name for variable in model.variables}
        for name in (*cutset.variables, *cutset.order):
            if name not in known:
                raise EvidenceError(
                    f"the cutset names {name!r}, which the model does not have: use the cutset "
                    "that find_cutset found for this very model"
                )
        self.model, self._device = on_cpu(model), model.device
        self.cutset = cutset
        self._limit = default_memory_limit() if memory_limit is None else memory_limit
        if cutset.cost.peak_bytes > self._limit:
            raise MemoryLimitError(cutset.cost.width, cutset.cost.peak_bytes, self._limit)
        self._progress: Fraction = (lambda _: None) if progress is None else progress
        self._answer: PartialAnswer | None = None
        self._turn = Turn()  # at finding the answer

    def log_partition(self) -> float:
        """Log Z: the log of the sum of all scores."""
        return self._swept().log_partition

    def marginals(self) -> dict[str, np.ndarray]:
        """Probabilities of every variable's states."""
        return {name: row.copy() for name, row in self._swept().marginals.items()}

    def map(self) -> MostLikely:
        """Find a most likely state and its log score."""
        with self._turn:
            best = self._everything(self._peak)
            self._progress(1.0)
        if best is None:
            raise _contradiction()
        numbers = [v.states.index(str(best.labels[v.name])) for v in self.model.variables]
        labels = {v.name: best.labels[v.name] for v in self.model.variables}
        state = torch.tensor(numbers, dtype=torch.long, device=self._device)
        return MostLikely(labels, state, best.log_score)

    # -- inside --------------------------------------------------------------------------------

    def _swept(self) -> PartialAnswer:
        """The answer, found by the first who asks."""
        with self._turn:
            if self._answer is None:
                self._answer = self._everything(self._whole)
                self._progress(1.0)
            if self._answer is None:
                raise _contradiction()
            return self._answer

    def _everything(self, ask: Ask[FoundT]) -> FoundT | None:
        """Answer for all states of the cutset."""
        span, waiting = Span(0.0, 1.0), self.cutset.variables
        if self._is_propagated:
            return self._from(Reduction.unchanged(self.model), waiting, span, ask)
        return self._branch(self.model, {}, waiting, span, ask)

    def _branch(
        self,
        model: FactorGraph,
        fixed: dict[str, StateIndex],
        waiting: tuple[str, ...],
        span: Span,
        ask: Ask[FoundT],
    ) -> FoundT | None:
        """Answer for a model with one more variable fixed, ``None`` if nothing is possible.

        The variables that wait are those of the cutset that are still to be fixed.
        """
        try:
            return self._from(propagate_zeros(model, fixed), waiting, span, ask)
        except ImpossibleEvidenceError:
            return None

    def _from(
        self, reduction: Reduction, waiting: tuple[str, ...], span: Span, ask: Ask[FoundT]
    ) -> FoundT | None:
        """Answer for a model that zeros have been taken out of."""
        try:
            waiting = tuple(name for name in waiting if name not in reduction.fixed)
            elimination = self._cutset_order(reduction.model, waiting)
            answer: FoundT | None
            if self._fits(elimination, reduction.model) or not waiting:
                answer = ask(reduction.model, self._better(elimination, reduction.model), span)
            else:
                answer = self._sum(reduction.model, waiting, span, ask)
        except ImpossibleEvidenceError:
            return None
        return None if answer is None else answer.expanded(reduction)

    def _sum(
        self, model: FactorGraph, waiting: tuple[str, ...], span: Span, ask: Ask[FoundT]
    ) -> FoundT | None:
        """Join the answers for the states of the first variable that waits."""
        name, *later = waiting
        num_states = model.variables[model.index(name)].num_states
        total: FoundT | None = None
        for state in range(num_states):
            here = span.part(state, num_states)
            self._progress(here.start)
            found = self._branch(model, {name: StateIndex(state)}, tuple(later), here, ask)
            if found is not None:
                total = found if total is None else total.plus(found)
        return total

    def _whole(self, model: FactorGraph, elimination: Elimination, span: Span) -> PartialAnswer:
        """Answer for a model that fits: messages up, then marginals down."""
        halves = iter((span.part(0, 2), span.part(1, 2)))
        half = next(halves)

        def report(fraction: float) -> None:
            self._progress(half.start + fraction * half.length)

        engine = ExactInference(
            model,
            memory_limit=self._limit,
            elimination=elimination,
            progress=report,
        )
        log_partition = engine.log_partition()
        half = next(halves)
        return PartialAnswer(log_partition, engine.marginals())

    def _peak(self, model: FactorGraph, elimination: Elimination, span: Span) -> PartialBest:
        """A most likely state of a model that fits."""

        def report(fraction: float) -> None:
            self._progress(span.start + fraction * span.length)

        engine = ExactInference(
            model, memory_limit=self._limit, elimination=elimination, progress=report
        )
        found = engine.map()
        return PartialBest(found.log_score, found.labels)

    def _cutset_order(self, model: FactorGraph, waiting: tuple[str, ...]) -> Elimination:
        """Eliminate in the order that came with the cutset, then the variables that wait."""
        left = {variable.name: number for number, variable in enumerate(model.variables)}
        order = [left[name] for name in (*self.cutset.order, *waiting) if name in left]
        return eliminate(model.markov_graph(), order)

    def _better(self, elimination: Elimination, model: FactorGraph) -> Elimination:
        """Return an order made for this model, if one that fits has smaller tables."""
        states = model.num_states.tolist()
        found = best_elimination(model.markov_graph(), states, most_tries=_TRIES)
        is_better = found.cost(states) < elimination.cost(states)
        return found if is_better and self._fits(found, model) else elimination

    def _fits(self, elimination: Elimination, model: FactorGraph) -> bool:
        return exact_cost(elimination, model.num_states.tolist()).peak_bytes <= self._limit


def _contradiction() -> ImpossibleEvidenceError:
    return ImpossibleEvidenceError(
        "the model gives every state probability zero: its factors contradict"
    )
