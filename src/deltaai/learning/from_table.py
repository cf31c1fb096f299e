"""``learn``: a model from a table of data, with missing cells, in one call.

The rows are split: tables are learned without the rows held out, judged by these, and then learned
from all rows, from where they stand. So the model has seen every row, and the held-out likelihood
is that of tables that had not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deltaai.arguments import checked_count, checked_items, checked_number, checked_seed
from deltaai.budget import Budget
from deltaai.errors import ConfigError, Setting, TimeLimitError, shown
from deltaai.io import DataTable, data_from_csv, data_from_table
from deltaai.learning.report import LearnedModel, LearningReport
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.chow_liu import chow_liu_parents
from deltaai.learning.tables.columns import MOST_STATES, Bins, Columns, columns_of
from deltaai.learning.tables.expectation import (
    CaseCounter,
    TableStep,
    empty_network,
    from_known,
    num_parameters,
    shaken,
    steps_of,
)
from deltaai.learning.tables.structure import CHOW_LIU, Structure, StructureLike, structure_of
from deltaai.learning.undirected import learn_undirected, undirected_report
from deltaai.models import FactorGraph, Variable
from deltaai.progress import Fraction, reporting
from deltaai.randomness import generator_of

_STEPS = 200
_LEARNING_SHARE = 0.8  # of the time; the rest is for judging
_LEAST_PRIOR = 1.0  # at the start
_SHAKEN = 0.9  # share of randomness at the start where some variables are never seen
_FEWEST_HELD_OUT = 10

Data = object  # a DataFrame, a list of mappings, or the path of a CSV file


def learn(
    data: Data,
    structure: StructureLike = CHOW_LIU,
    *,
    missing: str | Iterable[str] = ("?",),
    latent: Mapping[str, int | Sequence[str]] | None = None,
    bins: Bins = None,
    prior: float | int = 1.0,
    held_out: float | int = 0.1,
    steps: int | None = None,
    tolerance: float | int = 1e-6,
    restarts: int | None = None,
    seed: int = 0,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    progress: bool | Fraction | None = None,
) -> LearnedModel:
    """Learn the tables of a model from data, some cells of which may be missing.

    Parameters
    ----------
    data : a ``DataFrame``, a list of mappings of names to values, or the path of a CSV file with
        names in its first line.
    structure : ``"chow-liu"`` for the best tree, ``"independent"``, a Bayesian network or the file
        of one (its tables do not matter), a mapping of children to parents, or edges
        ``(parent, child)``. Any other model, or its file, and ``"grid 4x5"`` (the columns are the
        places of a grid, row by row) say which variables have a factor together: then tables
        without directions are learned, along the gradient of the likelihood.
    missing : what stands for a missing cell, besides blanks.
    latent : variables that no column shows, with their states or the number of these.
    bins : into how many bins to cut columns of numbers, at quantiles: for all, or by name.
    prior : pseudo-rows spread evenly over each table; 0 for the largest likelihood.
    held_out : share of the rows by which the tables are judged before they see them too.
    steps : of expectation maximisation, at most (200); or updates along a gradient (500).
    tolerance : gain of a step, in nats a row, below which learning ends.
    restarts : how often to begin at random tables, of which the best are kept (5 with latent
        variables).
    seed : of the rows held out and of random tables.
    memory_limit, time_limit : bytes (or a text such as ``"4GB"``) and seconds that may be used;
        when most of the time is over, the tables that were found are the answer.
    progress : whether to show a bar.

    Returns
    -------
    The model, to be asked like any other; ``model.report`` says how well it was learned.

    Examples
    --------
    >>> rows = [{"rain": "no", "wet": "no"}] * 6 + [{"rain": "yes", "wet": "yes"}] * 3
    >>> rows += [{"rain": "yes", "wet": "?"}]
    >>> model = learn(rows, [("rain", "wet")], held_out=0, prior=0)
    >>> model.report.num_parameters, round(model.report.log_likelihood, 3)
    (3, -0.673)
    """
    budget, start = Budget.of(memory_limit, time_limit), time.perf_counter()
    settings = LearningSettings(
        prior=checked_number("prior", prior, is_zero_allowed=True),
        held_out=_checked_share(held_out),
        steps=_STEPS if steps is None else checked_count("steps", steps, 1),
        tolerance=checked_number("tolerance", tolerance, is_zero_allowed=True),
        restarts=None if restarts is None else checked_count("restarts", restarts, 1),
        seed=checked_seed(seed),
    )
    marks = _marks(missing)
    table = (
        data_from_csv(Path(data), marks, budget)
        if isinstance(data, str | Path)
        else (data if isinstance(data, DataTable) else data_from_table(data, marks))
    )
    wanted = structure_of(structure)
    columns = columns_of(table, wanted.variables, _latent(latent, wanted), _checked_bins(bins))
    if not wanted.is_directed:
        with reporting(progress, label="learning") as reports:
            result = learn_undirected(
                columns,
                wanted,
                prior=settings.prior,
                held_out=settings.held_out,
                steps=steps,
                seed=settings.seed,
                budget=budget,
                progress=reports.fraction,
            )
        seconds = time.perf_counter() - start
        report = undirected_report(result, columns, wanted.name, budget, seconds)
        return LearnedModel.of(result.model, report)
    with reporting(progress, label="learning") as reports:
        learner = TableLearner(columns, wanted, settings, budget)
        found = learner.run(reports.fraction)
    return LearnedModel.of(
        found.model, learner.report(found, wanted.name, time.perf_counter() - start)
    )


@dataclass(frozen=True)
class LearningSettings:
    """How tables are learned; see :func:`learn`."""

    prior: float
    held_out: float
    steps: int
    tolerance: float
    restarts: int | None
    seed: int


class TableLearner:
    """Learns the tables of one structure from one set of rows.

    Parameters
    ----------
    columns : variables and rows.
    structure : parents, or that a tree is wanted.
    settings, budget : how, and within which limits.
    """

    def __init__(
        self, columns: Columns, structure: Structure, settings: LearningSettings, budget: Budget
    ) -> None:
        self.columns, self.settings, self.budget = columns, settings, budget
        self._learning = budget.part(_LEARNING_SHARE)
        rows = columns.rows
        names = [variable.name for variable in columns.variables]
        sizes = [variable.num_states for variable in columns.variables]
        if structure.is_tree_wanted:
            self.parents = chow_liu_parents(rows, sizes)
        else:
            self.parents = structure.among(names)
        self.is_latent = not bool((rows >= 0).any(0).all())
        generator = np.random.default_rng(settings.seed)
        order = generator.permutation(len(rows))
        held_out = int(settings.held_out * len(rows))
        self.num_held_out = held_out if held_out >= _FEWEST_HELD_OUT else 0
        self._judges = rows[order[: self.num_held_out]]
        self._taught = rows[order[self.num_held_out :]]
        self.held_out_log_likelihood: float | None = None

    def run(self, progress: Fraction | None) -> TableStep:
        """Learn without the rows held out, be judged by them, and learn from all."""
        model = empty_network(self.columns.variables, self.parents)
        share = 0.5 if self.num_held_out else 0.0
        if self.num_held_out:
            taught = self._best(self._cases(self._taught), model, _part(progress, 0.0, share))
            judges = CaseCounter(self._cases(self._judges), self.budget)
            self.held_out_log_likelihood = _in_time(lambda: judges.log_likelihood(taught.model))
            if not self._needs_steps:
                return self._best(
                    self._cases(self.columns.rows), model, _part(progress, share, 1.0)
                )
            everything = self._cases(self.columns.rows)
            return self._climb(everything, taught.model, _part(progress, share, 1.0))
        return self._best(self._cases(self.columns.rows), model, progress)

    def _cases(self, rows: np.ndarray) -> Cases:
        return Cases.of(rows, self.columns.variables)

    @property
    def _needs_steps(self) -> bool:
        return bool((self.columns.rows < 0).any())

    def _best(self, cases: Cases, model: FactorGraph, progress: Fraction | None) -> TableStep:
        """Begin where rows are known, or several times at random, and keep the best."""
        # What is impossible at the start stays so, and rows may need it.
        start = from_known(model, cases, max(self.settings.prior, _LEAST_PRIOR))
        number = self.settings.restarts or (5 if self.is_latent else 1)
        if not self.is_latent and number == 1:
            return self._climb(cases, start, progress)
        generator = generator_of(self.settings.seed)
        found: list[TableStep] = []
        for turn in range(number):
            part = _part(progress, turn / number, (turn + 1) / number)
            found.append(self._climb(cases, shaken(start, _SHAKEN, generator), part))
            if self.budget.is_over:
                break
        return max(found, key=lambda one: one.objective)

    def _climb(self, cases: Cases, model: FactorGraph, progress: Fraction | None) -> TableStep:
        """Steps until they gain little, or the time is over."""
        before = -math.inf
        self.has_converged = False
        standing: TableStep | None = None
        counter = CaseCounter(cases, self.budget)
        try:
            for standing in steps_of(counter, model, self.settings.prior):
                gain, before = standing.objective - before, standing.objective
                if progress is not None:
                    progress(min(standing.step / self.settings.steps, 1.0))
                if gain < self.settings.tolerance or not self._needs_steps:
                    self.has_converged = True
                    break
                if standing.step >= self.settings.steps or self._learning.is_over:
                    break
        except TimeLimitError:
            if standing is None:
                raise
        assert standing is not None
        if progress is not None:
            progress(1.0)
        return standing

    def report(self, found: TableStep, structure: str, seconds: float) -> LearningReport:
        """What there is to say of the result."""
        rows = self.columns.rows
        final = CaseCounter(self._cases(rows), self.budget)
        log_likelihood = _in_time(lambda: final.log_likelihood(found.model))
        surprise = {
            variable.name: value
            for variable, value in zip(found.model.variables, found.surprise, strict=True)
        }
        return LearningReport(
            structure=structure,
            num_rows=len(rows),
            num_held_out=self.num_held_out,
            missing_share=float((rows < 0).mean()) if rows.size else 0.0,
            num_parameters=num_parameters(found.model),
            log_likelihood=math.nan if log_likelihood is None else log_likelihood,
            held_out_log_likelihood=self.held_out_log_likelihood,
            steps=found.step,
            has_converged=self.has_converged,
            surprise=dict(sorted(surprise.items(), key=lambda pair: -pair[1])),
            notes=self.columns.notes,
            seconds=seconds,
        )


def _in_time(work: Callable[[], float]) -> float | None:
    """What work gives; nothing if the time is over before, for the answer does not need it."""
    try:
        return work()
    except TimeLimitError:
        return None


def _part(progress: Fraction | None, first: float, last: float) -> Fraction | None:
    """Report of a part of the work."""
    if progress is None:
        return None
    return lambda done: progress(first + (last - first) * done)


def _marks(missing: object) -> tuple[str, ...]:
    """Texts that stand for missing cells."""
    if isinstance(missing, str):
        return (missing,)
    found = checked_items("missing", missing, "texts that stand for missing cells")
    for mark in found:
        if not isinstance(mark, str):
            raise ConfigError(Setting("missing"), f" names {shown(mark)}: give a text, as '?'")
    return found


def _checked_bins(bins: Bins) -> Bins:
    if bins is None:
        return None
    if not isinstance(bins, Mapping):
        return checked_count("bins", bins, 2, MOST_STATES)
    return {
        _checked_name("bins", name): checked_count("bins", number, 2, MOST_STATES)
        for name, number in bins.items()
    }


def _checked_name(setting: str, name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(Setting(setting), f" names {shown(name)}: names of columns are texts")
    return str(name)


def _checked_share(held_out: float | int) -> float:
    share = checked_number("held_out", held_out, 1, is_zero_allowed=True)
    if share >= 1:
        raise ConfigError(Setting("held_out"), f" is {shown(held_out)}: some rows must be left")
    return share


def _latent(
    latent: Mapping[str, int | Sequence[str]] | None, structure: Structure
) -> dict[str, Variable]:
    """Variables that are never seen; their states are those of the structure, if it has some."""
    if latent is None:
        return {}
    if not isinstance(latent, Mapping):
        raise ConfigError(
            Setting("latent"),
            f" is {shown(latent)}: give names and numbers of states, as {{'a': 3}}",
        )
    found = {}
    for name, states in latent.items():
        asked = Variable(_checked_name("latent", name), states)
        given = (structure.variables or {}).get(name, asked)
        if asked.num_states != given.num_states:
            raise ConfigError(
                Setting("latent"),
                f" gives {name!r} {asked.num_states} states, and in the structure {name!r} has the "
                f"states {', '.join(given.states[:8])}: give as many",
            )
        found[name] = given
    return found
