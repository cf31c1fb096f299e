"""Samples moved by chains that leave p(x | e) as it is, so that copies become different.

Variables with states move by Gibbs sweeps. Where some are real, Hamiltonian steps move them, as
long as suits the samples: chains that are dropped afterwards find out. Chains do not change between
modes that are far apart; what share of samples is in which stays as it was.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.mcmc import GibbsKernel, HamiltonianKernel, Kernel, Reference, adapted, run_chains
from deltaai.models import FactorGraph, conditioned
from deltaai.randomness import fresh_generator

_TUNING_STEPS, _MOST_LEAPFROG = 40, 8


def moved(
    model: FactorGraph,
    states: Num[Tensor, "sample var"],
    observed: dict[int, Any],
    num_sweeps: int,
    generator: torch.Generator | None,
) -> Num[Tensor, "sample var"]:
    """States after Gibbs sweeps over the unobserved variables, or as many Hamiltonian steps."""
    free = [v for v in range(model.num_variables) if v not in observed]
    if not free or num_sweeps == 0 or not len(states):
        return states
    generator = generator or fresh_generator()
    reduced, given = conditioned(model, observed), states[:, free]
    if reduced.is_discrete:
        given = given.long()  # of a model whose real variables are all observed, they are floating
    kernel = _kernel_for(reduced, given, generator)
    chains = kernel.init(len(states), generator, states=given)
    chains, _ = run_chains(kernel, chains, num_sweeps, generator)
    found = states.clone()
    found[:, free] = chains.states.to(found.dtype)
    return found


def _kernel_for(
    model: FactorGraph, states: Num[Tensor, "sample var"], generator: torch.Generator
) -> Kernel[Any]:
    """A kernel with steps that suit the states; the chains that it was tuned with are dropped."""
    if model.is_discrete:
        return GibbsKernel(model)
    spread = states.std(0, correction=0)
    reference = Reference.normal(model, states.mean(0), spread.where(spread > 0, 1.0))
    kernel = HamiltonianKernel(model, reference=reference, num_leapfrog=_MOST_LEAPFROG)
    chains = kernel.init(len(states), generator, states=states)
    return adapted(kernel, chains, generator, num_steps=_TUNING_STEPS)[0]
