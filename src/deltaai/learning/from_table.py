"""``learn``: a model from a table of data, with missing cells, in one call.

What a user passes is checked here, and handed to whoever learns: tables of a Bayesian network
(:mod:`deltaai.learning.tables.learner`), or of a structure without directions
(:mod:`deltaai.learning.undirected`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from deltaai.arguments import checked_items
from deltaai.budget import Budget
from deltaai.errors import ConfigError, Setting, shown
from deltaai.io import DataTable, data_from_csv, data_from_table, is_there
from deltaai.learning.choices import Latent, LearningChoices
from deltaai.learning.report import LearnedModel
from deltaai.learning.tables.columns import Bins, columns_of
from deltaai.learning.tables.learner import TableLearner
from deltaai.learning.tables.learner_report import table_report
from deltaai.learning.tables.start import wanted_structure
from deltaai.learning.tables.structure import Structure, StructureLike
from deltaai.learning.undirected import learn_undirected, undirected_report
from deltaai.models import FactorGraph, Variable
from deltaai.progress import Fraction, reporting
from deltaai.training import give_up, settle_earlier

Data = object  # a DataFrame, a list of mappings, or the path of a CSV file


def learn(
    data: Data,
    structure: StructureLike | None = None,
    *,
    missing: str | Iterable[str] = ("?",),
    latent: Latent = None,
    bins: Bins = None,
    prior: float | int | None = None,
    held_out: float | int = 0.1,
    steps: int | None = None,
    tolerance: float | int = 1e-6,
    restarts: int | None = None,
    seed: int = 0,
    start: FactorGraph | str | Path | None = None,
    start_rows: float | int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    restart: bool = False,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    progress: bool | Fraction | None = None,
) -> LearnedModel:
    """Learn the tables of a model from data, some cells of which may be missing.

    Parameters
    ----------
    data : a ``DataFrame``, a list of mappings of names to values, or the path of a CSV file with
        names in its first line.
    structure : ``"chow-liu"`` for the best tree (the default, unless there is a ``start``),
        ``"independent"``, a Bayesian network or the file of one (its tables do not matter), a
        mapping of children to parents, or edges ``(parent, child)``. Any other model, or its file,
        and ``"grid 4x5"`` (the columns are the places of a grid, row by row) say which variables
        have a factor together: then tables without directions are learned, along the gradient of
        the likelihood.
    missing : what stands for a missing cell, besides blanks.
    latent : variables that no column shows, with their states or the number of these.
    bins : into how many bins to cut columns of numbers, at quantiles: for all, or by name.
    prior : pseudo-rows spread evenly over each table, 1 by default; 0 for the largest likelihood.
    held_out : share of the rows by which the tables are judged before they see them too.
    steps : of expectation maximisation, at most (200); or updates along a gradient (500,
        and 200 where states are drawn).
    tolerance : gain of a step, in nats a row, below which learning ends.
    restarts : how often to begin at random tables, of which the best are kept (5 with latent
        variables).
    seed : of the rows held out and of random tables.
    start : an earlier model, or its file, to learn on from. Its variables, states and structure are
        kept, and its tables are where learning begins.
    start_rows : how many rows the tables of ``start`` are worth, beside those of the data; then
        there is no ``prior`` by default. With 0 they are a place to begin and nothing else.
    checkpoint : file to keep the state of the run in; needed to resume.
    resume : continue from that file, or begin if there is none yet.
    restart : begin anew though that file holds a run, which is given up.
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
    budget = Budget.of(memory_limit, time_limit)
    choices = LearningChoices(
        latent=latent,
        bins=bins,
        prior=prior,
        held_out=held_out,
        steps=steps,
        tolerance=tolerance,
        restarts=restarts,
        seed=seed,
        start=start,
        start_rows=start_rows,
        checkpoint=checkpoint,
        resume=resume,
        restart=restart,
    )
    settle_earlier(choices.path, resume=choices.resume, restart=choices.restart)
    with budget.watched("the structure"):
        wanted, earlier = wanted_structure(structure, choices.start)
    marks = _marks(missing)
    if isinstance(data, str | Path):
        data = data_from_csv(Path(data), marks, budget)
    elif not isinstance(data, DataTable):
        data = data_from_table(data, marks)
    assert isinstance(data, DataTable)
    return learn_within(budget, data, wanted, earlier, choices, progress)


def learn_within(
    budget: Budget,
    data: DataTable,
    wanted: Structure,
    start: FactorGraph | None,
    choices: LearningChoices,
    progress: bool | Fraction | None = None,
) -> LearnedModel:
    """Learn like :func:`learn`, by a clock that runs already, from files that were read.

    Parameters
    ----------
    budget : memory, and the time that is left.
    data : the rows.
    wanted, start : the structure, and an earlier model to begin at; they agree.
    choices, progress : how, and whether to show a bar.
    """
    started = time.perf_counter()
    columns = columns_of(data, wanted.variables, _latent(choices, wanted), choices.bins)
    with reporting(progress, label="learning") as reports:
        if not wanted.is_directed:
            result = learn_undirected(columns, wanted, choices, start, budget, reports.fraction)
            seconds = time.perf_counter() - started
            report = undirected_report(result, columns, wanted.name, choices, budget, seconds)
            return LearnedModel.of(result.model, report)
        learner = TableLearner(columns, wanted, choices, budget, start)
        if (path := choices.path) is not None:
            if choices.resume and is_there(path):
                learner.take_up(path)
            elif choices.restart:
                give_up(path)
        found = learner.run(reports.fraction)
    report = table_report(learner, found, wanted.name)
    return LearnedModel.of(found.model, replace(report, seconds=time.perf_counter() - started))


def _marks(missing: object) -> tuple[str, ...]:
    """Texts that stand for missing cells."""
    if isinstance(missing, str):
        return (missing,)
    found = checked_items("missing", missing, "texts that stand for missing cells")
    for mark in found:
        if not isinstance(mark, str):
            raise ConfigError(Setting("missing"), f" names {shown(mark)}: give a text, as '?'")
    return found


def _latent(choices: LearningChoices, structure: Structure) -> dict[str, Variable]:
    """Variables that are never seen; their states are those of the structure, if it has some."""
    found = {}
    for name, states in (choices.latent or {}).items():
        asked = Variable(name, states)
        given = (structure.variables or {}).get(name, asked)
        if asked.num_states != given.num_states:
            raise ConfigError(
                Setting("latent"),
                f" gives {name!r} {asked.num_states} states, and in the structure {name!r} has the "
                f"states {', '.join(given.states[:8])}: give as many",
            )
        found[name] = given
    return found
