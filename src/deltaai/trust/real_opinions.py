"""Weighted samples of a model with real variables that owe nothing to any q.

Chains are cooled from a reference that spans all modes which climbers find
(:mod:`deltaai.mcmc.wide_references`), at temperatures and with steps that a few other chains
learned (:mod:`deltaai.mcmc.exploration`), as many and as slowly as work allows
(:mod:`deltaai.mcmc.annealing_plan`). Their weights are unbiased for the model as it is; what they
can see follows from how many families of them are effective, as for those over states.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import StateError, TimeLimitError
from deltaai.mcmc import (
    PILOT_CHAINS,
    HamiltonianKernel,
    Start,
    cool,
    explored,
    planned,
    wide_reference,
)
from deltaai.models import FactorGraph, StandardUnits, States

# Nanoseconds that chains may take, roughly, and those that learn of them.
_WORK, _WORK_OF_EXPLORING = 4e9, 1.5e9
_MOST_LEAPFROG = 8


def cooled_chains(
    model: FactorGraph,
    num_samples: int,
    wanted: float,
    generator: torch.Generator,
    budget: Budget,
    units: StandardUnits | None = None,
) -> tuple[States, Float64[Tensor, "sample"]] | None:
    """States of a model and their log weights; none if time is over, or nothing was possible.

    Parameters
    ----------
    model : what evidence leaves.
    num_samples : most chains.
    wanted : effective families that are enough.
    units : centre and unit of each variable, where they are known.
    """
    watch = budget.watching("the second opinion")
    left = 1e9 * budget.seconds_left / 2
    try:
        reference = wide_reference(model, generator, units)
        kernel = HamiltonianKernel(model, reference=reference, num_leapfrog=_MOST_LEAPFROG)
        learned = explored(kernel, generator, min(_WORK_OF_EXPLORING, left), watch)
        pilot = Start.hottest(learned.kernel, PILOT_CHAINS, generator)
        plan = planned(
            learned.kernel,
            pilot,
            min(_WORK, left),
            num_samples,
            wanted,
            generator,
            watch,
            suitable=learned.betas,
        )
        start = Start.hottest(learned.kernel, plan.num_chains, generator)
        cooled = cool(
            learned.kernel, start, plan.betas, plan.num_sweeps, generator, watch, may_meet=True
        )
    except (TimeLimitError, StateError):
        return None
    return cooled.families(generator)
