"""All parts of a folder as one tidy table, and as curves over time.

The table has one row a measurement (figure, model, method, seed, step, seconds, metric, value), the
form that data frames and plotting libraries want. A curve is the main metric of one part over the
part's own clock; between two measurements it keeps the value of the earlier one, for that is the
last that was known. This file reads no files and draws nothing.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.parts import Experiment
from deltaai.io import replace_file

COLUMNS = ("figure", "model", "method", "seed", "step", "seconds", "metric", "value")
GROUND_TRUTH = "ground_truth_is_exact"
GLOBAL_PHASE, GLOBAL_PHASE_UNDONE = "is_global_phase", "is_global_phase_undone"


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric over time: a step function from the first measurement on."""

    seconds: Float64[np.ndarray, "row"]
    values: Float64[np.ndarray, "row"]

    def at(self, seconds: Float64[np.ndarray, "time"]) -> Float64[np.ndarray, "time"]:
        """Values at other times: NaN before the first measurement, the last one after it.

        >>> curve = Curve(np.array([1.0, 2.0]), np.array([5.0, 3.0]))
        >>> curve.at(np.array([0.5, 1.5, 9.0]))
        array([nan,  5.,  3.])
        """
        position = np.searchsorted(self.seconds, seconds, side="right") - 1
        return np.where(position < 0, np.nan, self.values[np.maximum(position, 0)])

    def time_to_reach(self, threshold: float | int, *, is_larger_better: bool = False) -> float:
        """First time with a value as good as the threshold; infinite if there is none."""
        is_good = self.values >= threshold if is_larger_better else self.values <= threshold
        reached = np.flatnonzero(is_good)
        return float(self.seconds[reached[0]]) if len(reached) else math.inf

    @property
    def final(self) -> float:
        """The last value."""
        return float(self.values[-1])


@dataclass(frozen=True)
class GlobalPhase:
    """What became of the global phase of a run: its first second, infinite if it never began."""

    start: float
    is_undone: bool

    @property
    def has_begun(self) -> bool:
        """Whether there was one."""
        return math.isfinite(self.start)


def write_table(path: Path, finished: Sequence[FinishedPart]) -> None:
    """Write the rows of all parts as one CSV file, in one piece."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in finished:
        key = (each.experiment, each.part.model, each.part.method, each.part.seed)
        for row in each.rows:
            seconds, value = repr(float(row.seconds)), repr(float(row.value))
            writer.writerow((*key, row.step, seconds, row.metric, value))
    replace_file(path, stream.getvalue().encode())


def curves_of(finished: Sequence[FinishedPart], metric: str) -> dict[str, dict[str, list[Curve]]]:
    """Curves of a metric by model and method, one for each seed that measured it."""
    found: dict[str, dict[str, list[Curve]]] = {}
    for each in finished:
        rows = [row for row in each.rows if row.metric == metric]
        if rows:
            rows.sort(key=lambda row: row.seconds)  # stable: equal times stay in their order
            seconds = np.array([row.seconds for row in rows], dtype=np.float64)
            values = np.array([row.value for row in rows], dtype=np.float64)
            methods = found.setdefault(each.part.model, {})
            methods.setdefault(each.part.method, []).append(Curve(seconds, values))
    return found


def with_levels(experiment: Experiment, finished: Sequence[FinishedPart]) -> Experiment:
    """The experiment with facts that were measured among the references of its metric."""
    references = {model: dict(known) for model, known in experiment.references.items()}
    for fact, label in experiment.levels.get(experiment.metric, {}).items():
        for model, methods in curves_of(finished, fact).items():
            first = next(iter(methods.values()))[0]  # all measured the same
            references.setdefault(model, {})[label] = first.final
    return replace(experiment, references=references)


def global_phases_of(finished: Sequence[FinishedPart]) -> dict[str, dict[str, list[GlobalPhase]]]:
    """Global phases by model and method, one for each run that could have had one."""
    found: dict[str, dict[str, list[GlobalPhase]]] = {}
    for each in finished:
        told = [row for row in each.rows if row.metric == GLOBAL_PHASE]
        if told:
            start = min((float(row.seconds) for row in told if row.value), default=math.inf)
            is_undone = any(row.value for row in each.rows if row.metric == GLOBAL_PHASE_UNDONE)
            methods = found.setdefault(each.part.model, {})
            methods.setdefault(each.part.method, []).append(GlobalPhase(start, is_undone))
    return found


def ground_truth_word(finished: Sequence[FinishedPart], model: str) -> str:
    """Where the states that a model's samplers were measured with came from."""
    told = {
        bool(row.value)
        for each in finished
        if each.part.model == model
        for row in each.rows
        if row.metric == GROUND_TRUTH
    }
    if not told:
        return "not recorded"
    if len(told) > 1:
        return "exact samples for some parts, annealed Gibbs chains for others: do not compare"
    return "exact samples" if told.pop() else "annealed Gibbs chains"
