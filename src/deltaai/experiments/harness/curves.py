"""A training run as a curve: rows over the run's own time, without what measuring took.

Measurements are spread evenly over the logarithm of time, since all methods are compared over
orders of magnitude. The clock is wall-clock, and stands still while something is measured; CPU
seconds go into the table beside it, for they tell how much of the time neighbours took.

A run of several phases also says in which it is: ``is_global_phase`` is 1 from the first update
after the local ones on, where there is a measurement of its own, and ``is_global_phase_undone``
says at the end whether q from before was taken back. A phase that the time limit cuts off is
neither judged nor undone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import torch

from deltaai.experiments.harness.parts import Row
from deltaai.experiments.harness.results import GLOBAL_PHASE, GLOBAL_PHASE_UNDONE
from deltaai.mcmc import StateT
from deltaai.models import FactorGraph
from deltaai.training import Trainer, TrainingProgress

Measure = Callable[[], dict[str, float]]

_FIRST_SECONDS = 0.25
_RATIO = 1.35  # of the times of two measurements


class StopWatch:
    """A clock that can be held, and that says when the next measurement is due.

    Parameters
    ----------
    time_limit : seconds after which it is over.
    clock : what is read; the wall clock, or the seconds that the processor gave to this process.
    """

    def __init__(
        self, time_limit: float | int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.time_limit, self._clock = time_limit, clock
        self.due = _FIRST_SECONDS
        self._held = self._held_cpu = 0.0
        self._start, self._start_cpu = clock(), time.process_time()

    @property
    def seconds(self) -> float:
        """Time that has passed while the clock was running."""
        return self._clock() - self._start - self._held

    @property
    def is_over(self) -> bool:
        """Whether the time limit is reached."""
        return self.seconds >= self.time_limit

    def measured(self, step: int, measure: Measure) -> list[Row]:
        """Hold the clock, measure, and set the time of the next measurement."""
        # Before the first step no time has passed, whatever the set-up took.
        seconds = self.seconds if step else 0.0
        begin, begin_cpu = self._clock(), time.process_time()
        found = measure() | {"cpu_seconds": begin_cpu - self._start_cpu - self._held_cpu}
        self.due = max(self.due, seconds * _RATIO)
        self._held += self._clock() - begin
        self._held_cpu += time.process_time() - begin_cpu
        return [Row(step, seconds, metric, value) for metric, value in found.items()]


class _TimeIsOver(Exception):
    """Ends a training run from inside."""


def training_curve(trainer: Trainer, measure: Measure, time_limit: float | int) -> Iterator[Row]:
    """Train for a time; measure before the first update, now and then, and at the end."""
    watch, has_phases = StopWatch(time_limit), len(trainer.phases) > 1

    def measure_all() -> dict[str, float]:
        return measure() | ({GLOBAL_PHASE: float(_is_global(trainer))} if has_phases else {})

    rows = watch.measured(0, measure_all)

    def look(progress: TrainingProgress) -> None:
        if watch.is_over:
            raise _TimeIsOver
        begins = _is_global(trainer) and trainer.phase_step == 1
        if begins or watch.seconds >= watch.due:
            rows.extend(watch.measured(progress.step, measure_all))

    is_cut_off = True
    with suppress(_TimeIsOver):
        trainer.run(watch=look)
        is_cut_off = False
    rows.extend(watch.measured(trainer.step, measure_all))
    if has_phases:
        is_undone = not is_cut_off and _is_global(trainer) and _is_as_before(trainer)
        last = rows[-1]
        rows.append(Row(last.step, last.seconds, GLOBAL_PHASE_UNDONE, float(is_undone)))
    yield from rows


def _is_global(trainer: Trainer) -> bool:
    """Whether updates of a later phase were made; one that is not worth it makes none."""
    return trainer.number > 0 and trainer.phase_step > 0


def _is_as_before(trainer: Trainer) -> bool:
    """Whether q has the weights from before the phase."""
    if trainer.kept is None:
        return False
    now = trainer.phase.task.trained.state_dict()
    return all(torch.equal(now[name], value) for name, value in trainer.kept.weights.items())


def chain_curve(
    state: StateT,
    step: Callable[[StateT], StateT],
    measure: Callable[[StateT], dict[str, float]],
    time_limit: float | int,
) -> Iterator[Row]:
    """Run chains for a time; measure before the first step, now and then, and at the end."""
    watch, number = StopWatch(time_limit), 0
    yield from watch.measured(0, partial(measure, state))
    while not watch.is_over:
        state = step(state)
        number += 1
        if watch.seconds >= watch.due:
            yield from watch.measured(number, partial(measure, state))
    yield from watch.measured(number, partial(measure, state))


class LearningCurve:
    """A model that learns, measured now and then while the clock stands still.

    The clock is that of the processor: learning has a fixed number of updates, not a time limit,
    and so nothing hangs on what neighbours take.

    Parameters
    ----------
    measure : what to take down of the model.
    """

    def __init__(self, measure: Callable[[FactorGraph], dict[str, float]]) -> None:
        self._measure, self._watch = measure, StopWatch(math.inf, time.process_time)
        self._rows: list[Row] = []
        self._step = 0

    def look(self, model: FactorGraph) -> dict[str, float]:
        """Measure after an update, if it is time to; to be given to ``learn_model``."""
        self._step += 1
        if self._watch.seconds >= self._watch.due:
            self.take(model)
        return {}

    def take(self, model: FactorGraph) -> None:
        """Measure now: before the first update, and after the last."""
        self._rows.extend(self._watch.measured(self._step, partial(self._measure, model)))

    def note(self, metric: str, value: float | int) -> None:
        """Take down a number that is known from now on."""
        self._rows.append(Row(self._step, self._watch.seconds, metric, value))

    def rows(self) -> Iterator[Row]:
        """All that was taken down."""
        yield from self._rows
