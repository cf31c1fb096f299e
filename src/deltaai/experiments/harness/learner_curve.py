"""A learner as a curve that survives a kill.

Measurements are spread evenly over the logarithm of the learner's own clock, which stands still
while it is judged. The rows so far and the learner's checkpoint are written after each measurement,
the checkpoint also in between; a part that was killed takes both up and goes on, and what was
measured after the last checkpoint is measured again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from deltaai.errors import FormatError, TrainingError
from deltaai.experiments.harness.part_files import (
    FOLDER,
    FinishedPart,
    part_path,
    read_part,
    write_part,
)
from deltaai.experiments.harness.parts import CLOCKS, Part, Row
from deltaai.learning import TimedLearner

LearnerT = TypeVar("LearnerT", bound=TimedLearner)
JudgedT_contra = TypeVar("JudgedT_contra", contravariant=True)

_FIRST_SHARE = 1 / 60  # of the time limit, until the first measurement
_RATIO = 1.5  # of the times of two measurements
_KEPT_EVERY = 60.0  # seconds of training between checkpoints


@runtime_checkable
class Judge(Protocol[JudgedT_contra]):
    """What measures learners of one kind of data."""

    def of_the_data(self) -> dict[str, float]:
        """What does not depend on a learner."""

    def on_the_way(self, learner: JudgedT_contra) -> dict[str, float]:
        """Metrics that are measured often."""

    def at_the_end(self, learner: JudgedT_contra) -> dict[str, float]:
        """Metrics that are measured once."""

    def write_examples(self, learner: JudgedT_contra, path: Path) -> None:
        """Keep what pictures are drawn from."""


def learner_curve(
    part: Part, learner: LearnerT, judge: Judge[LearnerT], folder: Path
) -> Iterator[Row]:
    """Train a learner as long as its part says, and measure on the way and at the end.

    Parameters
    ----------
    part : with the settings ``time_limit``, and ``updates``, which is 0 for no limit; if there is a
        ``clock`` it says by which of :data:`CLOCKS` the learner is timed.
    learner : as it was made; an earlier run of the part is taken up.
    judge : measures it.
    folder : where the part keeps its state.
    """
    learner.clock = CLOCKS[str(part.options.get("clock", "wall"))]
    checkpoint, run = folder / f"{part.name}.checkpoint", _Run(part, learner)
    rows = _taken_up(part, learner, folder, checkpoint)
    run.cpu_seconds = max((row.value for row in rows if row.metric == "cpu_seconds"), default=0.0)
    if not rows:
        rows = run.rows(judge.of_the_data() | judge.on_the_way(learner))
        _keep(part, rows, learner, folder, checkpoint)
    while not run.is_over:
        due = run.next_due
        while not run.is_over and learner.seconds < due:
            run.train(min(due, learner.seconds + _KEPT_EVERY))
            learner.save(checkpoint)
        rows += run.rows(judge.on_the_way(learner))
        _keep(part, rows, learner, folder, checkpoint)
    judge.write_examples(learner, examples_path(folder, part))
    yield from rows
    yield from run.rows(judge.at_the_end(learner))


def examples_path(folder: Path, part: Part) -> Path:
    """Where what pictures of a part are drawn from is kept."""
    return folder / f"{part.name}.examples"


class _Run:
    """A learner on its way to the end of its part."""

    def __init__(self, part: Part, learner: TimedLearner) -> None:
        self.learner, self.cpu_seconds = learner, 0.0
        self._limit = float(part.options["time_limit"])
        self._updates = int(part.options["updates"]) or None

    @property
    def is_over(self) -> bool:
        """Whether time or updates have reached their limit."""
        is_done = self._updates is not None and self.learner.num_updates >= self._updates
        return is_done or self.learner.seconds >= self._limit

    @property
    def next_due(self) -> float:
        """When to measure next."""
        due = self._limit * _FIRST_SHARE
        while due <= self.learner.seconds:
            due *= _RATIO
        # Not shortly before the end, where there is a measurement anyway.
        return self._limit if due * _RATIO**0.5 > self._limit else due

    def train(self, seconds: float) -> None:
        """Train on until the clock shows so much."""
        begin = time.process_time()
        self.learner.run(seconds=seconds, updates=self._updates)
        self.cpu_seconds += time.process_time() - begin

    def rows(self, found: dict[str, float]) -> list[Row]:
        """What was measured now, as rows."""
        found = found | {"cpu_seconds": self.cpu_seconds}
        learner = self.learner
        return [
            Row(learner.num_updates, learner.seconds, name, value) for name, value in found.items()
        ]


def _keep(
    part: Part, rows: list[Row], learner: TimedLearner, folder: Path, checkpoint: Path
) -> None:
    (folder / FOLDER).mkdir(exist_ok=True)
    write_part(folder, FinishedPart("unfinished", part, tuple(rows), learner.seconds, 1, ""))
    learner.save(checkpoint)


def _taken_up(part: Part, learner: TimedLearner, folder: Path, checkpoint: Path) -> list[Row]:
    """Rows of an earlier run of the same part, whose learner is restored; none if there is none."""
    try:
        earlier = read_part(part_path(folder, part))
    except FormatError:
        earlier = None
    if earlier is None or earlier.part != part or not checkpoint.exists():
        checkpoint.unlink(missing_ok=True)  # of other settings
        return []
    try:
        learner.restore(checkpoint)
    except TrainingError:  # made with defaults that have changed since
        checkpoint.unlink()
        return []
    return [row for row in earlier.rows if row.seconds <= learner.seconds]
