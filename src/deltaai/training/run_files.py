"""Checkpoints of runs: all that the rest of a run depends on, in one file, and back.

A target that learns is part of that: its parameters are written and restored, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaai.errors import FormatError, Setting, TrainingError, one_line
from deltaai.io import load_tensors, save_tensors
from deltaai.training.kept import Kept
from deltaai.training.nested_state import pack_state, unpack_state

if TYPE_CHECKING:
    from deltaai.training.loop import Trainer

CHECKPOINT_KIND = "checkpoint"
_FREE = ("time_limit", "checkpoint_every")  # settings that may change when a run is resumed


def run_state(run: Trainer) -> dict[str, Any]:
    """All that the rest of the run depends on, nested."""
    return {
        "trained": [dict(phase.task.trained.state_dict()) for phase in run.phases],
        "target": [value.detach() for value in run.phase.task.target_parameters()],
        "optimizer": run.optimizer.state_dict(),
        "generator": run.generator.get_state(),
        "rng": run.rng.bit_generator.state,
        "task": run.phase.task.state(),
        "kept": None if run.kept is None else vars(run.kept),
        "number": run.number,
        "phase_step": run.phase_step,
        "step": run.step,
        "seconds": run.seconds,
        "history": run.history,
    }


def save_run(run: Trainer, path: Path) -> None:
    """Write all that the rest of the run depends on."""
    write_state(path, CHECKPOINT_KIND, run.identity, run.config.to_dict(), run_state(run))


def take_up_run(run: Trainer, path: Path) -> None:
    """Continue from a checkpoint of the same model and settings."""
    read_state(
        path,
        CHECKPOINT_KIND,
        run.identity,
        run.config.to_dict(),
        free=_FREE,
        others="another model or another kind of sampler",
        restore=lambda state: restore_run(run, state),
    )


def write_state(
    path: Path,
    kind: str,
    identity: Mapping[str, Any],
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
) -> None:
    """Write what a run of some kind depends on, what it is of, and its settings."""
    tensors, packed = pack_state(dict(state))
    metadata = {"identity": dict(identity), "config": dict(settings), "state": packed}
    save_tensors(path, tensors, metadata, kind=kind)


def read_state(
    path: Path,
    kind: str,
    identity: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    free: Sequence[str],
    others: str,
    restore: Callable[[dict[str, Any]], None],
) -> None:
    """Take up what :func:`write_state` wrote, if it is of the same run.

    Parameters
    ----------
    free : settings that may have changed.
    others : what else it may be of, for the message.
    restore : takes the state; whatever it raises says that the file is not of this version.
    """
    tensors, metadata = load_tensors(path, kind)
    try:
        if metadata.get("identity") != dict(identity):
            raise TrainingError(
                f"{path} belongs to {others}; start anew, or give what it was made for"
            )
        theirs, ours = metadata["config"], dict(settings)
        changed = [name for name in ours if theirs.get(name) != ours[name] and name not in free]
        if changed:
            listed = [part for name in changed for part in (", ", Setting(name))][1:]
            raise TrainingError(
                f"{path} was made with other settings (",
                *listed,
                "); use the same to resume, or start anew",
            )
        restore(unpack_state(tensors, metadata["state"]))
    except TrainingError:
        raise
    except Exception as error:  # the checksum is right, so whoever made the file is to blame
        raise FormatError(
            path,
            None,
            f"the run in it is incomplete or of another version: {one_line(error)}; start anew",
        ) from error


def restore_run(run: Trainer, state: Mapping[str, Any]) -> None:
    """Take up what :func:`run_state` gave, checked: it may come from a file."""
    steps = (state["number"], state["phase_step"], state["step"])
    if any(type(step) is not int or step < 0 for step in steps) or not 0 <= state["number"] <= len(
        run.phases
    ):
        raise ValueError(f"phase and steps {steps!r}")
    if not math.isfinite(state["seconds"]):
        raise ValueError(f"step {state['step']!r} after {state['seconds']!r} seconds")
    run.number, run.phase_step, run.step = steps
    run.seconds, run.history = state["seconds"], state["history"]
    if not _is_history(run.history, run.step):
        raise ValueError("its history is not a list of measurements up to its step")
    run.kept = None if state["kept"] is None else Kept(**state["kept"])
    for phase, trained in zip(run.phases, state["trained"], strict=True):
        phase.task.trained.load_state_dict(trained)
    learned = list(run.phase.task.target_parameters())
    for parameter, value in zip(learned, state["target"], strict=True):
        if parameter.shape != value.shape:
            raise ValueError(f"parameters of the target of shape {tuple(value.shape)}")
        parameter.data.copy_(value)
    run.optimizer.load_state_dict(state["optimizer"])
    for parameter, moments in run.optimizer.state.items():
        for name, value in moments.items():
            if name != "step" and value.shape != parameter.shape:
                raise ValueError(f"moments of shape {tuple(value.shape)}")
    run.generator.set_state(state["generator"])
    run.rng.bit_generator.state = state["rng"]
    run.phase.task.restore(state["task"], run.generator)


def _is_history(history: object, step: int) -> bool:
    return isinstance(history, list) and all(
        isinstance(row, dict) and type(row.get("step")) is int and row["step"] <= step
        for row in history
    )
