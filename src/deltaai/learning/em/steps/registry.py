"""E-steps by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltaai.learning.em.steps.base import EStep, Parts
from deltaai.learning.em.steps.by_objective import balance_step, delta_step
from deltaai.learning.em.steps.exact import ExactStep
from deltaai.learning.em.steps.gibbs import GibbsStep
from deltaai.learning.em.steps.importance import ImportanceStep
from deltaai.learning.em.steps.mean_field import MeanFieldStep
from deltaai.learning.em.steps.partial import PartialStep
from deltaai.learning.em.steps.sleep import SleepStep
from deltaai.registry import add_entry, checked_callable


@dataclass(frozen=True)
class EStepKind:
    """How an E-step is built.

    Parameters
    ----------
    build : gives the step for its parts.
    is_factorised : whether its q has latents that are independent given the row.
    """

    build: Callable[[Parts], EStep[Any]]
    is_factorised: bool = False


E_STEPS: dict[str, EStepKind] = {
    "delta": EStepKind(delta_step),
    "delta-partial": EStepKind(PartialStep),
    "tb": EStepKind(balance_step("tb")),
    "db": EStepKind(balance_step("db")),
    "fl-db": EStepKind(balance_step("fl-db")),
    "mean-field": EStepKind(MeanFieldStep, is_factorised=True),
    "sleep": EStepKind(SleepStep),
    "importance": EStepKind(ImportanceStep),
    "gibbs": EStepKind(GibbsStep),
    "exact": EStepKind(ExactStep),
}


def register_e_step(
    name: str,
    build: Callable[[Parts], EStep[Any]],
    *,
    is_factorised: bool = False,
    replace: bool = False,
) -> None:
    """Make an E-step a choice of ``LatentConfig(method=name)``.

    Parameters
    ----------
    name : what settings and files call it.
    build : gives the step for its parts; the class itself will mostly do.
    is_factorised : whether its q has latents that are independent given the row.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of an E-step", build, "(parts)")
    add_entry(E_STEPS, "method", name, EStepKind(build, is_factorised), replace=replace)
