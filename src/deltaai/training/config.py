"""The settings of a training run: one frozen value, checked when it is made.

Nothing downstream checks a setting again, and nothing is corrected in silence: a setting that is
out of range, or that another setting would make meaningless, is refused by name. A config is
saved with every result, so it turns into JSON and back.

This file decides nothing about a model. Choosing settings that suit one is the work of ``fit``,
and what a schedule means step by step is in :mod:`deltaai.training.schedules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Literal, get_args

from deltaai.arguments import (
    MOST_COUNT,
    MOST_SAMPLES,
    checked_choice,
    checked_count,
    checked_flag,
    checked_number,
    checked_seed,
    is_finite,
)
from deltaai.errors import ConfigError, Setting, did_you_mean, shown
from deltaai.objectives import OBJECTIVES, SUB_DAGS

Schedule = Literal["cosine", "step", "constant"]
Alternatives = Literal["one", "all"]
PartialEnergyName = Literal["completed", "zero-filled"]
ValuesFrom = Literal["q", "data", "chains"]
Policy = Literal[
    "on-policy", "tempered", "annealed", "uniform-mixture", "tempered-mixture", "uniform"
]

_TEMPERED: tuple[Policy, ...] = ("tempered", "annealed", "tempered-mixture")
_MIXTURES: tuple[Policy, ...] = ("uniform-mixture", "tempered-mixture")


def objective_names() -> tuple[str, ...]:
    """All choices of ``objective``: those registered, and sub-DAGs."""
    return (*OBJECTIVES, SUB_DAGS)


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; the defaults suit small models.

    Parameters
    ----------
    objective : what is minimised. Local ones: ``"delta"``, all variables of full samples;
        ``"sampled"``, ``sampled_variables`` of them; ``"stochastic"``, two children of each;
        ``"sub-dags"``, neighbourhoods alone, never a full sample (many orders only). Global ones:
        ``"log-variance"``, trajectory balance ``"tb"``, detailed balance ``"db"``, sub-trajectory
        balance ``"subtb"``, and the forward-looking ``"fl-db"`` and ``"fl-subtb"``; or the name of
        one that was registered (:func:`deltaai.objectives.register_objective`).
    sampled_variables : variables of each order that ``"sampled"`` takes at a time.
    decay : λ of sub-trajectory balance.
    partial_energy : reward of a partial sample for the forward-looking objectives: of its
        ``"completed"`` factors, or of all with missing variables ``"zero-filled"``.
    partition_rate : learning rate of log Z, where an objective learns it.
    log_partition : what log Z is learned from.
    steps : number of updates; 0 leaves q as it was initialised, so that there is nothing to polish.
    polish_steps : further updates, with the variance of the log weights over full samples as the
        loss, if the effective sample size is still low by then; q from before is kept if better.
    polish_rate : learning rate they begin with; it falls as a cosine.
    batch_size : states in an update.
    learning_rate : of Adam, before the schedule's multiplier.
    schedule : ``"cosine"`` falls smoothly to about zero, ``"step"`` drops by
        ``step_decay_factor`` at each of ``step_decay_at``, ``"constant"`` stays.
    step_decay_at : fractions of ``steps``, increasing, for ``schedule="step"``.
    step_decay_factor : what the rate is multiplied by at each of them.
    warmup_steps : updates over which the rate rises from about zero.
    gradient_clip : largest norm of the whole gradient; ``None`` for no limit.
    resample_every : updates between draws of fresh states.
    redraw_orders_every : updates between draws of fresh orders, when many are trained.
    values : where states come from: ``"q"`` under the policy, ``"data"`` that was given, or
        Gibbs ``"chains"`` of the target.
    values_share : share of the states that data or chains make up; q draws the others.
    alternatives : with more than two states, compare each state with ``"one"`` other value of every
        variable, drawn at random, or with ``"all"``.
    step_size : how far real variables are moved to be compared, in units of their own width; by
        default their other values are drawn anew from q.
    policy : what draws the training states. ``"on-policy"`` is q itself, ``"tempered"`` is q with
        logits divided by ``temperature``, ``"annealed"`` lets that fall to 1 over the
        ``anneal_steps``, ``"uniform"`` ignores q. The mixtures take the uniform,
        or the tempered, choice with probability ``exploration`` and q's own otherwise.
    temperature : for the tempered policies; above 1 explores.
    exploration : share ε of the mixture policies that is not on-policy.
    anneal_steps : updates over which the target's inverse temperature rises to 1; 0 for none.
    anneal_start : inverse temperature at the first update, if there is annealing.
    time_limit : seconds after which training ends; ``None`` for no limit.
    evaluate_every : updates between estimates of ELBO and effective sample size; 0 for never.
    evaluation_samples : states in such an estimate.
    evaluate_first : whether there is one before the first update, where q may be right already.
    target_ess : stop once the effective sample size is at least this fraction; ``None`` for no
        such target.
    target_kl : stop once KL(q, p), estimated as log Z minus ELBO, is at most this many nats.
    checkpoint_every : updates between checkpoints; 0 for none.
    seed : of all randomness in the run.

    Raises
    ------
    ConfigError
        If a setting has the wrong type, is out of range, or contradicts another.
    """

    objective: str = "delta"
    sampled_variables: int = 8
    decay: float | int = 0.9
    partial_energy: PartialEnergyName = "zero-filled"
    partition_rate: float | int = 0.1
    log_partition: float | int = 0.0
    steps: int = 1000
    polish_steps: int = 0
    polish_rate: float | int = 3e-3
    batch_size: int = 256
    learning_rate: float | int = 1e-2
    schedule: Schedule = "cosine"
    step_decay_at: tuple[float | int, ...] = (0.2, 0.4, 0.6, 0.8, 0.9)
    step_decay_factor: float | int = 0.1
    warmup_steps: int = 0
    gradient_clip: float | int | None = None
    resample_every: int = 1
    redraw_orders_every: int = 50
    values: ValuesFrom = "q"
    values_share: float | int = 1.0
    alternatives: Alternatives = "one"
    step_size: float | int | None = None
    policy: Policy = "on-policy"
    temperature: float | int = 1.0
    exploration: float | int = 0.0
    anneal_steps: int = 0
    anneal_start: float | int = 0.1
    time_limit: float | int | None = None
    evaluate_every: int = 50
    evaluation_samples: int = 1000
    evaluate_first: bool = False
    target_ess: float | int | None = None
    target_kl: float | int | None = None
    checkpoint_every: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "sampled_variables",
            "batch_size",
            "resample_every",
            "redraw_orders_every",
            "evaluation_samples",
        ):
            self._check_whole(name, 1, MOST_SAMPLES)
        for name in (
            "steps",
            "polish_steps",
            "warmup_steps",
            "anneal_steps",
            "evaluate_every",
            "checkpoint_every",
        ):
            self._check_whole(name, 0)
        checked_flag("evaluate_first", self.evaluate_first)
        object.__setattr__(self, "seed", checked_seed(self.seed))
        for name in ("learning_rate", "polish_rate", "partition_rate", "decay", "temperature"):
            self._check_number(name)
        for name in ("gradient_clip", "time_limit", "target_kl", "step_size"):
            if getattr(self, name) is not None:
                self._check_number(name)
        # Not zero: a target with forbidden states would multiply minus infinity by it.
        for name in ("anneal_start", "step_decay_factor", "values_share"):
            self._check_number(name, highest=1)
        if self.target_ess is not None:
            self._check_number("target_ess", highest=1)
        self._check_number("exploration", highest=1, is_zero_allowed=True)
        if not is_finite(self.log_partition):
            raise ConfigError(
                Setting("log_partition"),
                f" is {shown(self.log_partition)}; it must be a finite number",
            )
        object.__setattr__(self, "log_partition", float(self.log_partition))
        self._check_choice("objective", objective_names())
        self._check_choice("partial_energy", get_args(PartialEnergyName))
        self._check_choice("schedule", get_args(Schedule))
        self._check_choice("policy", get_args(Policy))
        self._check_choice("values", get_args(ValuesFrom))
        self._check_choice("alternatives", get_args(Alternatives))
        self._check_step_decay_at()
        self._check_agreement()

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, in values that JSON has."""
        return asdict(self) | {"step_decay_at": list(self.step_decay_at)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """Settings as :meth:`to_dict` gives them; what is not named takes its default.

        >>> TrainingConfig.from_dict({"steps": 20}).steps
        20
        >>> TrainingConfig.from_dict({"step": 20})
        Traceback (most recent call last):
        deltaai.errors.ConfigError: there is no setting 'step'; did you mean 'steps'?
        """
        if not isinstance(settings, Mapping):
            raise ConfigError(
                f"settings are a mapping of names to values, not a {type(settings).__name__}"
            )
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                guess = did_you_mean(name, known)
                raise ConfigError(f"there is no setting {shown(name)}{guess}")
        values = dict(settings)
        if isinstance(values.get("step_decay_at"), list):  # JSON has no tuples
            values["step_decay_at"] = tuple(values["step_decay_at"])
        return cls(**values)

    def _check_whole(self, name: str, lowest: int, highest: int = MOST_COUNT) -> None:
        checked = checked_count(name, getattr(self, name), lowest, highest)
        object.__setattr__(self, name, checked)  # a plain one, whatever it came as

    def _check_number(
        self, name: str, highest: int | None = None, is_zero_allowed: bool = False
    ) -> None:
        value = getattr(self, name)
        checked = checked_number(name, value, highest, is_zero_allowed=is_zero_allowed)
        object.__setattr__(self, name, checked)  # so that equal settings read alike in files

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        checked_choice(name, getattr(self, name), choices)

    def _check_step_decay_at(self) -> None:
        at = self.step_decay_at
        if not isinstance(at, tuple) or not all(is_finite(fraction) for fraction in at):
            raise ConfigError(
                Setting("step_decay_at"), f" is {shown(at)}; it must be a tuple of numbers"
            )
        bounded = (0, *at, 1)
        if any(later <= earlier for earlier, later in pairwise(bounded)):
            raise ConfigError(
                Setting("step_decay_at"),
                f" is {shown(at)}; it must hold increasing fractions of the run, "
                "each above 0 and below 1",
            )
        object.__setattr__(self, "step_decay_at", tuple(float(fraction) for fraction in at))

    def _check_agreement(self) -> None:
        if self.values_share != 1 and self.values == "q":
            raise ConfigError(
                Setting("values_share"),
                f" is {self.values_share} but all states come from q; choose ",
                Setting("values", "data"),
                " or ",
                Setting("values", "chains"),
            )
        if self.polish_steps > 0 and self.steps == 0:
            raise ConfigError(
                Setting("polish_steps"),
                f" is {self.polish_steps} but ",
                Setting("steps"),
                " is 0, which leaves q as it was initialised: leave it out, or train with ",
                Setting("objective", "log-variance"),
            )
        for name in ("warmup_steps", "anneal_steps"):
            if getattr(self, name) > self.steps:
                raise ConfigError(
                    Setting(name),
                    f" is {getattr(self, name)} but training ends after {self.steps} steps; lower "
                    "it, or raise ",
                    Setting("steps"),
                )
        if self.temperature != 1 and self.policy not in _TEMPERED:
            raise ConfigError(
                Setting("temperature"),
                f" is {self.temperature} but policy {self.policy!r} does not use it; "
                f"choose {' or '.join(_TEMPERED)}",
            )
        if self.exploration != 0 and self.policy not in _MIXTURES:
            raise ConfigError(
                Setting("exploration"),
                f" is {self.exploration} but policy {self.policy!r} does not use it; "
                f"choose {' or '.join(_MIXTURES)}",
            )
        if self.policy == "annealed" and self.anneal_steps == 0:
            raise ConfigError(
                Setting("policy"),
                " is 'annealed' but ",
                Setting("anneal_steps"),
                " is 0: set it, or choose 'tempered'",
            )
        for name in ("target_ess", "target_kl"):
            if getattr(self, name) is not None and self.evaluate_every == 0:
                raise ConfigError(
                    Setting(name),
                    " is set but ",
                    Setting("evaluate_every"),
                    " is 0, so it would never be measured",
                )
