"""Checkpoints of learning: all that the rest of a run depends on, in one file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from deltaai.errors import FormatError, Setting, TrainingError, one_line
from deltaai.training import load_tensors, pack_state, save_tensors, unpack_state

if TYPE_CHECKING:
    from deltaai.learning.likelihood.learner import Learner

KIND = "learning"
_FREE = ("checkpoint_every",)  # settings that may change when a run is resumed


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
    tensors, packed = pack_state(state)
    metadata = {
        "identity": dict(learner.identity),
        "config": learner.config.to_dict(),
        "state": packed,
    }
    save_tensors(path, tensors, metadata, kind=KIND)


def take_up_learner(learner: Learner, path: Path) -> None:
    """Continue from a checkpoint of the same model, rows and settings."""
    tensors, metadata = load_tensors(path, KIND)
    if metadata.get("identity") != dict(learner.identity):
        raise TrainingError(
            f"{path} belongs to another model, other rows or another gradient; start anew, or give "
            "those it was made for"
        )
    theirs, ours = metadata["config"], learner.config.to_dict()
    changed = [name for name in ours if theirs.get(name) != ours[name] and name not in _FREE]
    if changed:
        listed = [part for name in changed for part in (", ", Setting(name))][1:]
        raise TrainingError(
            f"{path} was made with other settings (",
            *listed,
            "); use the same to resume, or start anew",
        )
    try:
        _restore(learner, unpack_state(tensors, metadata["state"]))
    except Exception as error:  # the checksum is right, so whoever made the file is to blame
        raise FormatError(
            path,
            None,
            f"the run in it is incomplete or of another version: {one_line(error)}; start anew",
        ) from error


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
