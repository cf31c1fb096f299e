"""The loop that learns the tables of a network, which may be stopped between any two steps.

Rows are split: tables are learned without those held out and judged by them, and then learned from
all rows. Each of the two is a *stage*, a stage is a number of *climbs* of which the best is kept,
and a climb is steps of expectation maximisation until they gain little. Where a run stands is one
value (:class:`~deltaai.learning.tables.standing.Standing`), which is the checkpoint: a run that is
taken up takes the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from deltaai.budget import Budget
from deltaai.errors import TimeLimitError
from deltaai.learning.choices import LearningChoices
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.chow_liu import chow_liu_parents
from deltaai.learning.tables.columns import Columns
from deltaai.learning.tables.drawn_counts import EstimatedLikelihood
from deltaai.learning.tables.expectation import (
    CaseCounter,
    TableStep,
    empty_network,
    from_known,
    shaken,
    steps_of,
)
from deltaai.learning.tables.learner_files import identity_of, save_standing, take_up_standing
from deltaai.learning.tables.prior import Prior
from deltaai.learning.tables.standing import Stage, Standing
from deltaai.learning.tables.start import earlier_network, expected_rows, without_zeros
from deltaai.learning.tables.structure import Structure
from deltaai.models import FactorGraph
from deltaai.progress import Fraction
from deltaai.randomness import generator_of

_STEPS = 200
_LEARNING_SHARE = 0.8  # of the time; the rest is for judging
_LEAST_PRIOR = 1.0  # at the start
_SHAKEN = 0.9  # share of randomness at the start where some variables are never seen
_FEWEST_HELD_OUT = 10
# Between two checkpoints: so many seconds, or so many times what the last one took to write.
_SECONDS_APART, _WRITING_APART = 1.0, 20.0


@dataclass(eq=False)
class TableLearner:
    """Learns the tables of one structure from one set of rows.

    Parameters
    ----------
    columns : variables and rows.
    structure : parents, or that a tree is wanted.
    choices, budget : how, and within which limits.
    start : an earlier network to begin at, of this structure.
    """

    columns: Columns
    structure: Structure
    choices: LearningChoices
    budget: Budget
    start: FactorGraph | None = None

    def __post_init__(self) -> None:
        rows, variables = self.columns.rows, self.columns.variables
        self._learning = self.budget.part(_LEARNING_SHARE)
        if self.structure.is_tree_wanted:
            self.parents = chow_liu_parents(rows, [variable.num_states for variable in variables])
        else:
            self.parents = self.structure.among([variable.name for variable in variables])
        self.network = empty_network(variables, self.parents)
        self.prior = Prior(float(self.choices.prior or 0.0))
        if self.start is not None:
            self.network = earlier_network(self.network, self.start)
            if number := float(self.choices.start_rows):
                expected = expected_rows(self.network, number, self.budget)
                self.prior = replace(self.prior, expected=expected)
        self.needs_steps = bool((rows < 0).any())
        self.at = Standing(generator_of(self.choices.seed))
        self._stages = self._split()
        self._counter: CaseCounter | None = None  # that of the last climb
        self._saved, self._writing = time.monotonic(), 0.0  # when, and how long that took

    def run(self, progress: Fraction | None = None) -> TableStep:
        """Learn without the rows held out, be judged by them, and learn from all.

        Raises
        ------
        TimeLimitError
            When the time is over before a single step.
        """
        at, number = self.at, len(self._stages)
        while True:
            part = _part(progress, at.stage / number, (at.stage + 1) / number)
            self._learn(self._stages[at.stage], part)
            if at.stage + 1 == number:
                break
            best = at.best_so_far
            held_out = None if best is None else self.judged(best.model, self._judges)
            at.end_stage(held_out, generator_of(self.choices.seed))
        if self.choices.path is not None:
            self._save(self.choices.path)
        found = at.best_so_far or at.found
        assert found is not None  # or the time was over, which was said
        return found

    def take_up(self, path: Path) -> None:
        """Go on where a run of the same rows, structure and settings was stopped."""
        take_up_standing(self, path, [stage.num_climbs for stage in self._stages])

    @cached_property
    def identity(self) -> dict[str, str]:
        """What a checkpoint must agree on."""
        return identity_of(self)

    @property
    def num_held_out(self) -> int:
        """Rows that judge."""
        share = int(self.choices.held_out * len(self.columns.rows))
        return share if share >= _FEWEST_HELD_OUT else 0

    def judged(
        self, model: FactorGraph, rows: np.ndarray, *, is_checked: bool = True
    ) -> EstimatedLikelihood | None:
        """The likelihood of rows; none if the time is over first, for the answer needs none.

        Parameters
        ----------
        is_checked : whether an estimate is worth second opinions.
        """
        counter = CaseCounter(self._cases(rows), self.budget, self._counter, self.choices.seed)
        try:
            return counter.judged(model, is_judged=is_checked)
        except TimeLimitError:
            return None

    @property
    def is_estimated(self) -> bool:
        """Whether counts were drawn."""
        return self._counter is not None and self._counter.is_estimated

    def _split(self) -> list[Stage]:
        rows, choices = self.columns.rows, self.choices
        is_latent = not bool((rows >= 0).any(0).all())
        self._is_shaken = self.start is None and (is_latent or (choices.restarts or 1) > 1)
        number = 1 if self.start is not None else choices.restarts or (5 if is_latent else 1)
        order = np.random.default_rng(choices.seed).permutation(len(rows))
        judges, taught = np.split(order, [self.num_held_out])
        self._judges = rows[judges]
        if not len(judges):
            return [Stage(rows, number)]
        if self.needs_steps:
            return [Stage(rows[taught], number), Stage(rows, 1, goes_on=True)]
        return [Stage(rows[taught], number), Stage(rows, number)]

    def _cases(self, rows: np.ndarray) -> Cases:
        return Cases.of(rows, self.columns.variables)

    def _learn(self, stage: Stage, progress: Fraction | None) -> None:
        """Climb as often as the stage says, or until the time is over."""
        at, number = self.at, stage.num_climbs
        cases = self._cases(stage.rows)
        counter = CaseCounter(cases, self.budget, self._counter, self.choices.seed)
        if at.counting is not None:
            counter.restore(at.counting, self.network)
        self._counter, at.counting = counter, None
        while at.climb < number:
            part = _part(progress, at.climb / number, (at.climb + 1) / number)
            self._climb(counter, lambda: self._beginning(stage, cases), part)
            if not at.is_at_top:  # the time is over
                return
            at.end_climb()
            if self.budget.is_over:
                return

    def _beginning(self, stage: Stage, cases: Cases) -> FactorGraph:
        """Tables to begin a climb at."""
        if stage.goes_on and self.at.found is not None:
            return self.at.found.model
        # What is impossible at the start stays so, and rows may need it.
        if self.start is not None:
            return without_zeros(self.network)
        even = Prior(max(self.prior.even, _LEAST_PRIOR))
        known = from_known(self.network, cases, even)
        return shaken(known, _SHAKEN, self.at.generator) if self._is_shaken else known

    def _climb(
        self, counter: CaseCounter, begin: Callable[[], FactorGraph], progress: Fraction | None
    ) -> None:
        """Steps until they gain little, or the time is over."""
        at, most = self.at, self.choices.steps or _STEPS
        if at.is_at_top:
            return
        if at.here is None:
            counter.begin()
        model = begin() if at.here is None else at.here.model
        try:
            for found in steps_of(counter, model, self.prior, at.here):
                has_converged = not found.gain >= self.choices.tolerance or not self.needs_steps
                at.here = replace(found, has_converged=has_converged)
                at.is_at_top = has_converged or found.step >= most
                self._save_if_due()
                if progress is not None:
                    progress(1.0 if at.is_at_top else found.step / most)
                if at.is_at_top or self._learning.is_over:
                    return
        except TimeLimitError:
            if at.best_so_far is None and at.found is None:
                raise

    def _save_if_due(self) -> None:
        began = time.monotonic()
        is_due = began - self._saved >= max(_SECONDS_APART, _WRITING_APART * self._writing)
        if self.choices.path is not None and is_due:
            self._save(self.choices.path)
            self._saved = time.monotonic()
            self._writing = self._saved - began

    def _save(self, path: Path) -> None:
        if self._counter is not None:
            self.at.counting = self._counter.state()
        save_standing(self, path)


def _part(progress: Fraction | None, first: float, last: float) -> Fraction | None:
    """Report of a part of the work."""
    if progress is None:
        return None
    return lambda done: progress(first + (last - first) * done)
