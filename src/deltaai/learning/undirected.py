"""``learn`` for structures without directions: a table for every scope, by maximum likelihood.

There are no counts to divide by: the tables follow the gradient of the likelihood, exact where that
takes a moment and by a q that follows p elsewhere (:mod:`deltaai.learning.likelihood`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from deltaai.budget import Budget
from deltaai.errors import ConfigError, MemoryLimitError, ModelError, Setting, TrainingError
from deltaai.exact import RowInference
from deltaai.learning.choices import LearningChoices
from deltaai.learning.likelihood.learn_model import LikelihoodResult, default_gradient, learn_model
from deltaai.learning.likelihood.parameters import learnable
from deltaai.learning.report import LearningReport
from deltaai.learning.tables.cases import MISSING, Cases
from deltaai.learning.tables.columns import Columns
from deltaai.learning.tables.start import earlier_log_tables
from deltaai.learning.tables.structure import Structure
from deltaai.models import FactorGraph, TableFactor
from deltaai.progress import Fraction

_LEARNING_SHARE, _LEAST_SECONDS = 0.6, 1e-3
_BYTES_PER_CELL = 80  # as measured, where some are missing
_CHECKPOINT_EVERY = 5  # updates that take all rows
_OURS = {"weight_decay": "prior"}  # settings that have another name here
_MOST_ENTRIES = 2**20  # of one table
# Tables begin at zero and have far to go at first; that a step takes a second or two is the draws.
# Fillings are weighted island by island, so that few of them do.
_BY_DRAWS = {"steps": 200, "learning_rate": 0.05, "num_fillings": 4}
_MOST_SECONDS = 60.0  # for the likelihood of all rows, which is for the report alone


def learn_undirected(
    columns: Columns,
    structure: Structure,
    choices: LearningChoices,
    start: FactorGraph | None,
    budget: Budget,
    progress: Fraction | None,
) -> LikelihoodResult:
    """Learn a table for every scope of a structure without directions.

    Parameters
    ----------
    columns, structure : variables and rows, and which variables have a table together.
    choices : how. The prior is a normal one of variance 1 / prior on every entry of a log-table;
        steps are updates, those of :func:`learn_model` by default, and fewer, larger ones by
        draws.
    start : an earlier model to begin at, of this structure.
    budget : time that may be used; most of it is for learning, the rest for judging.
    progress : who is told how far it is.
    """
    if choices.start_rows:
        raise ConfigError(
            Setting("start_rows"),
            " count rows in tables of a Bayesian network, and this structure has no directions: "
            "leave them out",
        )
    num_cells = columns.rows.size + len(columns.rows)
    what = "rows of a structure without directions"
    budget.refuse(what, _BYTES_PER_CELL * num_cells, "raise it, or give fewer rows")
    model = learnable(_beginning(columns, structure, start))
    gradient = default_gradient(model)
    settings: dict[str, Any] = {} if choices.steps is None else {"steps": choices.steps}
    if gradient == "exact":  # with all rows every time, a few large steps get there
        settings |= {"optimizer": "lbfgs", "batch_size": None}
        settings |= {"checkpoint_every": _CHECKPOINT_EVERY}
    else:
        settings = _BY_DRAWS | settings
    if budget.time_limit is not None:
        settings["time_limit"] = max(_LEARNING_SHARE * budget.seconds_left, _LEAST_SECONDS)
    try:
        with budget.watched("the model"):
            return learn_model(
                model,
                torch.from_numpy(columns.rows.astype("int64")),
                gradient=gradient,
                weight_decay=float(choices.prior or 0.0) / len(columns.rows),
                held_out=choices.held_out,
                seed=choices.seed,
                checkpoint=choices.path,
                resume=choices.resume,
                restart=choices.restart,
                progress=False if progress is None else progress,
                **settings,
            )
    except TrainingError as error:  # in the words of this door
        named = {Setting(theirs): Setting(ours) for theirs, ours in _OURS.items()}
        raise TrainingError(*(named.get(part, part) for part in error.args)) from None


def _beginning(columns: Columns, structure: Structure, start: FactorGraph | None) -> FactorGraph:
    """A table for every scope: zeros, or what the factors of an earlier model are there."""
    sizes = {variable.name: variable.num_states for variable in columns.variables}
    shapes = {
        scope: [sizes[name] for name in scope] for scope in structure.scopes_among(list(sizes))
    }
    for scope, shape in shapes.items():
        if math.prod(shape) > _MOST_ENTRIES:
            raise ModelError(
                f"the table of ({', '.join(scope)}) would have {math.prod(shape)} entries: give "
                "smaller scopes"
            )
    earlier = {} if start is None else earlier_log_tables(start)
    factors = []
    for scope, shape in shapes.items():
        table = torch.zeros(shape, dtype=torch.float64, device="cpu")
        factors.append(TableFactor(list(scope), earlier.get(scope, table)))
    return FactorGraph(columns.variables, factors)


def undirected_report(
    found: LikelihoodResult,
    columns: Columns,
    structure: str,
    choices: LearningChoices,
    budget: Budget,
    seconds: float,
) -> LearningReport:
    """What there is to say of the result."""
    rows, held_out = columns.rows, found.held_out
    cases = Cases.of(rows, columns.variables)
    return LearningReport(
        structure=structure,
        num_rows=len(rows),
        num_held_out=round(choices.held_out * len(rows)) if held_out is None else held_out.num_rows,
        missing_share=float((rows < 0).mean()),
        num_parameters=sum(g.num_factors * g.table_size for g in found.model.groups),
        log_likelihood=_log_likelihood(found.model, cases, budget),
        held_out_log_likelihood=None if held_out is None else held_out.log_likelihood,
        steps=found.num_steps,
        has_converged=found.is_converged,
        surprise={},
        notes=(
            *columns.notes,
            *(() if choices.start is None else ("learned on from an earlier model",)),
            f"learned along the {found.gradient} gradient, without the rows held out",
        ),
        seconds=seconds,
        status="exact" if held_out is None else held_out.status,
    )


def _log_likelihood(model: FactorGraph, cases: Cases, budget: Budget) -> float:
    """Mean log-likelihood of all rows; NaN where that would take long."""
    try:
        engine = RowInference(model, memory_limit=budget.memory)
    except MemoryLimitError:
        return math.nan
    if engine.seconds_a_row * len(cases.rows) > min(_MOST_SECONDS, budget.seconds_left):
        return math.nan
    nothing = torch.full((1, model.num_variables), MISSING, dtype=torch.long, device="cpu")
    log_partition = float(engine.expected_counts(nothing).log_partition[0])
    total = 0.0
    for rows, weights in cases.blocks():
        total += float((engine.expected_counts(rows).log_partition * weights).sum())
    return total / cases.num_rows - log_partition
