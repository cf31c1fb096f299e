"""Checkpoints of learning: all that the rest of a run depends on, in one file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from deltaai.training import read_state, write_state

if TYPE_CHECKING:
    from deltaai.learning.likelihood.learner import Learner

KIND = "learning"
_FREE = ("time_limit", "checkpoint_every")  # settings that may change when a run is resumed


def save_learner(learner: Learner, path: Path) -> None:
    """Write all that the rest of the run depends on."""
    best = learner.best
    held_out = learner.held_out
    state = {
        "parameters": [value.detach() for value in learner.parameters],
        "optimizer": learner.optimizer.state_dict(),
        "generator": learner.generator.get_state(),
        "gradient": learner.gradient.state(),
        "judging": None if held_out is None else held_out.generator.get_state(),
        "best": None if best is None else {"score": best[0], "parameters": best[1]},
        "num_worse": learner.num_worse,
        "is_converged": learner.is_converged,
        "step": learner.step,
        "seconds": learner.seconds,
        "history": [_without_nonsense(row) for row in learner.history],
    }
    write_state(path, KIND, learner.identity, learner.config.to_dict(), state)


def take_up_learner(learner: Learner, path: Path) -> None:
    """Continue from a checkpoint of the same model, rows and settings."""
    read_state(
        path,
        KIND,
        learner.identity,
        learner.config.to_dict(),
        free=_FREE,
        others="another model, other rows or another gradient",
        restore=lambda state: _restore(learner, state),
    )


def _restore(learner: Learner, state: Mapping[str, Any]) -> None:
    with torch.no_grad():
        for parameter, value in zip(learner.parameters, state["parameters"], strict=True):
            parameter.copy_(value)
    learner.optimizer.load_state_dict(state["optimizer"])
    learner.generator.set_state(state["generator"])
    learner.gradient.restore(state["gradient"])
    if learner.held_out is not None:
        learner.held_out.generator.set_state(state["judging"])
    best = state["best"]
    learner.best = None if best is None else (best["score"], best["parameters"])
    learner.num_worse, learner.is_converged = state["num_worse"], state["is_converged"]
    learner.step, learner.seconds = state["step"], state["seconds"]
    learner.history = state["history"]


def _without_nonsense(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the history without numbers that are none, which JSON does not have."""
    return {
        name: value
        for name, value in row.items()
        if not isinstance(value, float) or abs(value) < float("inf")
    }
