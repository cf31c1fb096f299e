"""What a question about one row of evidence and one about many have in common."""

from __future__ import annotations

from collections.abc import Sequence

from deltaai.errors import (
    ConfigError,
    EvidenceError,
    NotAffordableError,
    Setting,
    did_you_mean,
    format_bytes,
)
from deltaai.exact.joints import refuse_large
from deltaai.inference.defaults import training_cost
from deltaai.inference.estimate import Asked
from deltaai.models import FactorGraph
from deltaai.models.smoothing import has_zeros

SMOOTHING = 1e-3  # floor of zeros while training, as a share of a table's largest entry


def check_method(method: str, known: Sequence[str]) -> None:
    """Refuse a method that there is not.

    >>> check_method("exakt", ["exact", "auto"])
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: method is 'exakt'; did you mean 'exact'? One of exact, auto
    """
    if method not in known:
        guess = did_you_mean(method, known) or ";"
        raise ConfigError(Setting("method"), f" is {method!r}{guess} One of {', '.join(known)}")


def check_num_samples(num_samples: int) -> None:
    """Refuse to draw nothing."""
    if num_samples < 1:
        raise ConfigError(Setting("num_samples"), f" is {num_samples}: it must be at least 1")


def asked_names(model: FactorGraph, of: Sequence[Asked] | None) -> list[Asked]:
    """What is asked for, in order and once each; a tuple of names asks for their joint marginal.

    Unknown names are refused.
    """
    if of is None:
        return [variable.name for variable in model.variables]
    if isinstance(of, str):
        raise EvidenceError(f"of is {of!r}: give a list of names, such as [{of!r}]")
    return list(dict.fromkeys(_asked(model, item) for item in of))


def _asked(model: FactorGraph, item: Asked) -> Asked:
    if not isinstance(item, tuple):
        return model.variables[model.index(item)].name
    names = tuple(model.variables[model.index(name)].name for name in item)
    if not names or len(set(names)) < len(names):
        raise EvidenceError(f"the joint marginal of {names} needs names, each once")
    refuse_large(model, names)
    return names


def joints_of(asked: Sequence[Asked]) -> list[tuple[str, ...]]:
    """The joint marginals among what is asked for."""
    return [item for item in asked if isinstance(item, tuple)]


def refuse_joints(asked: Sequence[Asked], by: str, remedy: str) -> list[str]:
    """Names alone; joint marginals are refused where there is no good way to them."""
    joints = joints_of(asked)
    if joints:
        raise ConfigError(f"{by} gives no joint marginals, such as {joints[0]}: {remedy}")
    return [item for item in asked if isinstance(item, str)]


def suitable_smoothing(model: FactorGraph) -> float | None:
    """What to floor zeros at while training; nothing if there are none."""
    return SMOOTHING if has_zeros(model) else None


def refuse_training(
    model: FactorGraph, memory_limit: int, *, is_for_evidence: bool = False
) -> None:
    """Raise an error if training a sampler would not fit into memory."""
    needed = training_cost(model, is_for_evidence=is_for_evidence).peak_bytes
    if needed > memory_limit:
        raise NotAffordableError(
            f"training a sampler needs about {format_bytes(needed)} and the memory limit is "
            f"{format_bytes(memory_limit)}; raise the limit"
        )
