"""Checkpoints of learning tables: where a run stands, in one file, and back bit for bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltaai.learning.tables.drawn_counts import EstimatedLikelihood
from deltaai.learning.tables.expectation import TableStep
from deltaai.models import ConditionalTableGroup, FactorGraph
from deltaai.training import read_state, write_state
from deltaai.trust import Verdict

if TYPE_CHECKING:
    from deltaai.learning.tables.learner import TableLearner

KIND = "learning of tables"
_STEPS = ("here", "best", "found")  # of a standing
_ROUNDING = 1e-9
_SETTINGS = ("prior", "held_out", "steps", "tolerance", "restarts", "seed", "start_rows")


def save_standing(learner: TableLearner, path: Path) -> None:
    """Write all that the rest of the run depends on."""
    at = learner.at
    state = {
        "generator": at.generator.get_state(),
        "stage": at.stage,
        "climb": at.climb,
        "is_at_top": at.is_at_top,
        "held_out": None if at.held_out is None else _judged(at.held_out),
        "counting": at.counting,
        **{name: _packed(getattr(at, name)) for name in _STEPS},
    }
    write_state(path, KIND, learner.identity, _settings(learner), state)


def take_up_standing(learner: TableLearner, path: Path, num_climbs: Sequence[int]) -> None:
    """Take up what :func:`save_standing` wrote.

    Parameters
    ----------
    learner : of the same rows, structure, start and settings.
    path : the file.
    num_climbs : of each stage.
    """
    read_state(
        path,
        KIND,
        learner.identity,
        _settings(learner),
        free=(),
        others="other data, another structure or another start",
        restore=lambda state: _restore(learner, state, num_climbs),
    )


def identity_of(learner: TableLearner) -> dict[str, str]:
    """What the run is of; where it begins is part of the network."""
    rows = np.ascontiguousarray(learner.columns.rows)
    digest = hashlib.sha256(f"{rows.dtype} {rows.shape}".encode())
    digest.update(rows.data)
    return {
        "rows": digest.hexdigest(),
        "parents": json.dumps(learner.parents),
        "network": learner.network.content_hash(),
        "begins": "anew" if learner.start is None else "at a start",
    }


def _settings(learner: TableLearner) -> dict[str, Any]:
    return {name: getattr(learner.choices, name) for name in _SETTINGS}


def _restore(learner: TableLearner, state: Mapping[str, Any], num_climbs: Sequence[int]) -> None:
    stage, climb, judged = state["stage"], state["climb"], state["held_out"]
    is_there = type(stage) is int and 0 <= stage < len(num_climbs)
    if not is_there or type(climb) is not int or not 0 <= climb <= num_climbs[stage]:
        raise ValueError(f"stage {stage!r} and climb {climb!r}")
    held_out = None
    if judged is not None:
        verdict = Verdict(**{**judged["verdict"], "doubts": tuple(judged["verdict"]["doubts"])})
        held_out = EstimatedLikelihood(float(judged["mean"]), float(judged["error"]), verdict)
    steps = {name: _unpacked(state[name], learner.network) for name in _STEPS}
    if stage > 0 and steps["found"] is None:
        raise ValueError("a stage without what the stage before found")
    at = learner.at
    at.generator.set_state(state["generator"])
    at.stage, at.climb, at.held_out = stage, climb, held_out
    at.is_at_top = bool(state["is_at_top"]) and steps["here"] is not None
    at.here, at.best, at.found = (steps[name] for name in _STEPS)
    at.counting = state["counting"]


def _judged(found: EstimatedLikelihood) -> dict[str, Any]:
    return {"mean": found.mean, "error": found.error, "verdict": vars(found.verdict)}


def _packed(step: TableStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    values = {name: value for name, value in vars(step).items() if name != "model"}
    return {**values, "tables": [group.log_tables() for group in step.model.groups]}


def _unpacked(state: Mapping[str, Any] | None, network: FactorGraph) -> TableStep | None:
    if state is None:
        return None
    groups = []
    for group, tables in zip(network.groups, state["tables"], strict=True):
        assert isinstance(group, ConditionalTableGroup)
        is_like = tables.shape == group.tables.shape and tables.dtype == group.tables.dtype
        if not is_like or not bool((tables <= _ROUNDING).all()):
            raise ValueError(f"tables of shape {tuple(tables.shape)} that are not of this network")
        groups.append(replace(group, tables=tables))
    values = {name: value for name, value in state.items() if name != "tables"}
    values |= {name: tuple(map(float, values[name])) for name in ("objectives", "surprise")}
    return TableStep(FactorGraph.from_groups(network.variables, groups), **values)
