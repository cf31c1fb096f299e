"""What may be chosen when a model is learned from a table: one frozen value, checked when made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaai.arguments import (
    checked_count,
    checked_flag,
    checked_number,
    checked_path,
    checked_seed,
)
from deltaai.errors import ConfigError, Setting, shown
from deltaai.learning.tables.columns import MOST_STATES, Bins
from deltaai.models import FactorGraph

_PRIOR = 1.0

Latent = Mapping[str, int | Sequence[str]] | None


@dataclass(frozen=True)
class LearningChoices:
    """How a model is learned; see :func:`~deltaai.learning.learn`."""

    latent: Latent = None
    bins: Bins = None
    prior: float | int | None = None
    held_out: float | int = 0.1
    steps: int | None = None
    tolerance: float | int = 1e-6
    restarts: int | None = None
    seed: int = 0
    start: FactorGraph | str | Path | None = None
    start_rows: float | int = 0.0
    checkpoint: str | Path | None = None
    resume: bool = False
    restart: bool = False

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "latent": _checked_latent(self.latent),
            "bins": _checked_bins(self.bins),
            "held_out": _checked_share(self.held_out),
            "tolerance": checked_number("tolerance", self.tolerance, is_zero_allowed=True),
            "seed": checked_seed(self.seed),
            "start_rows": checked_number("start_rows", self.start_rows, is_zero_allowed=True),
            "resume": checked_flag("resume", self.resume),
            "restart": checked_flag("restart", self.restart),
        }
        if self.prior is None:  # what was added to the rows of the start is in it already
            checked["prior"] = 0.0 if checked["start_rows"] else _PRIOR
        else:
            checked["prior"] = checked_number("prior", self.prior, is_zero_allowed=True)
        for name in ("steps", "restarts"):
            if (value := getattr(self, name)) is not None:
                checked[name] = checked_count(name, value, 1)
        if self.checkpoint is not None:
            checked["checkpoint"] = checked_path(self.checkpoint, "checkpoint")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if self.start is None and self.start_rows:
            raise ConfigError(
                Setting("start_rows"),
                " are rows of an earlier model, and none is given: name it with ",
                Setting("start"),
            )
        if self.start is not None and self.restarts is not None:
            raise ConfigError(
                Setting("restarts"), " are random starts, beside ", Setting("start"), ": give one"
            )

    @property
    def path(self) -> Path | None:
        """The file that the state of the run is kept in, if one was named."""
        return None if self.checkpoint is None else Path(self.checkpoint)


def _checked_name(setting: str, name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(Setting(setting), f" names {shown(name)}: names of columns are texts")
    return str(name)


def _checked_latent(latent: Latent) -> Latent:
    if latent is None:
        return None
    if not isinstance(latent, Mapping):
        raise ConfigError(
            Setting("latent"),
            f" is {shown(latent)}: give names and numbers of states, as {{'a': 3}}",
        )
    return {_checked_name("latent", name): states for name, states in latent.items()}


def _checked_bins(bins: Bins) -> Bins:
    if bins is None:
        return None
    if not isinstance(bins, Mapping):
        return checked_count("bins", bins, 2, MOST_STATES)
    return {
        _checked_name("bins", name): checked_count("bins", number, 2, MOST_STATES)
        for name, number in bins.items()
    }


def _checked_share(held_out: float | int) -> float:
    share = checked_number("held_out", held_out, 1, is_zero_allowed=True)
    if share >= 1:
        raise ConfigError(Setting("held_out"), f" is {shown(held_out)}: some rows must be left")
    return share
