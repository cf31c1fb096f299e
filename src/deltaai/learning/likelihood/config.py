"""The settings of a learning run: one frozen value, checked when it is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from deltaai.arguments import (
    MOST_SAMPLES,
    checked_choice,
    checked_count,
    checked_number,
    checked_seconds,
    checked_seed,
)
from deltaai.errors import ConfigError, Setting
from deltaai.learning.likelihood.gradients import GradientSettings

Optimizer = Literal["adam", "lbfgs"]
RateSchedule = Literal["cosine", "constant"]
Centre = Literal["zero", "mean"]


@dataclass(frozen=True)
class LikelihoodConfig:
    """How to learn.

    No prior is there unless one is asked for. Tables of overlapping factors have directions that
    leave p as it is; the gradient has no part along them, so they stay about where they began and
    need none. Where a joint state that a factor tells apart never occurs in the rows, the maximum
    lies at infinity: learning goes there slowly until it ends, and ``weight_decay`` keeps it
    finite.

    Parameters
    ----------
    steps : number of updates.
    batch_size : rows of an update; ``None`` for all of them every time.
    optimizer : ``"adam"``, or ``"lbfgs"`` for gradients with a value and all rows every time.
    learning_rate : of Adam.
    schedule : ``"cosine"`` falls smoothly to about zero, which averages the noise of estimated
        gradients away; ``"constant"`` stays.
    weight_decay : λ of a penalty λ/2 Σ (θ - c)² on the mean negative log-likelihood: a normal
        prior of variance 1 / (λ N) on every parameter.
    decay_to : the centre c of that prior: ``"zero"``, or ``"mean"``, the mean of the parameters
        that stand in one tensor (all couplings, or all tables of one shape). Then they are taken
        for draws around a mean that nothing is known of before.
    l1 : λ of a penalty λ Σ |θ|. Steps respect its corner, so that parameters become exactly zero.
    held_out : share of the rows that is not learned from, and judges.
    evaluate_every : updates between judgements; 0 for none but the last.
    patience : judgements without a better one after which learning ends, and the best parameters
        are taken back; ``None`` to go on to the last step and keep the last.
    tolerance : learning ends when no part of an exact gradient is larger, or a line search finds
        nothing better; not for batches.
    checkpoint_every : updates between checkpoints; 0 for one at the end alone.
    seed : of all randomness.
    time_limit : seconds after which learning ends with what there is; ``None`` for no limit.
    """

    steps: int = 500
    batch_size: int | None = 256
    optimizer: Optimizer = "adam"
    learning_rate: float | int = 0.03
    schedule: RateSchedule = "cosine"
    weight_decay: float | int = 0.0
    decay_to: Centre = "zero"
    l1: float | int = 0.0
    held_out: float | int = 0.1
    evaluate_every: int = 50
    patience: int | None = None
    tolerance: float | int = 1e-6
    checkpoint_every: int = 50
    seed: int = 0
    time_limit: float | int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "evaluate_every", "checkpoint_every"):
            checked_count(name, getattr(self, name), 0)
        for name in ("batch_size", "patience"):
            if getattr(self, name) is not None:
                checked_count(name, getattr(self, name), 1, MOST_SAMPLES)
        checked_number("learning_rate", self.learning_rate)
        for name in ("weight_decay", "l1", "tolerance"):
            checked_number(name, getattr(self, name), is_zero_allowed=True)
        checked_number("held_out", self.held_out, 1, is_zero_allowed=True)
        checked_choice("optimizer", self.optimizer, get_args(Optimizer))
        checked_choice("schedule", self.schedule, get_args(RateSchedule))
        checked_choice("decay_to", self.decay_to, get_args(Centre))
        checked_seed(self.seed)
        checked_seconds(self.time_limit)
        if self.held_out == 1:
            raise ConfigError(Setting("held_out"), " is 1, which leaves no rows to learn from")
        if self.patience is not None and (self.held_out == 0 or self.evaluate_every == 0):
            raise ConfigError(
                Setting("patience"),
                " waits for better judgements, and there are none: set ",
                Setting("held_out", 0.1),
                " and ",
                Setting("evaluate_every", 50),
            )
        if self.optimizer == "lbfgs" and self.batch_size is not None:
            raise ConfigError(
                Setting("optimizer", "lbfgs"),
                " takes all rows every time: set ",
                Setting("batch_size"),
                "=None",
            )

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, in values that JSON has."""
        return asdict(self)


def split_settings(settings: dict[str, Any]) -> tuple[LikelihoodConfig, dict[str, Any]]:
    """Settings of the run, and those of its gradient."""
    of_run = {field.name for field in fields(LikelihoodConfig)}
    of_gradient = {field.name for field in fields(GradientSettings)} - {"steps", "seed"}
    unknown = set(settings) - of_run - of_gradient
    if unknown:
        known = ", ".join(sorted(of_run | of_gradient))
        raise ConfigError(f"there is no setting {sorted(unknown)[0]!r}; one of {known}")
    config = LikelihoodConfig(**{k: v for k, v in settings.items() if k in of_run})
    return config, {k: v for k, v in settings.items() if k in of_gradient}
