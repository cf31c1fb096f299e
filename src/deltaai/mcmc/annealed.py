"""Annealed importance sampling: chains that are cooled, and weights that know what that cost.

Chains start at states of p~^β_0, each with a weight w_0 whose mean is Z(β_0), and are cooled
through β_0 < β_1 < ... < β_T = 1. Gibbs sweeps alone leave modes in the shares in which cooling
found them, metastable states included. With

    log w = log w_0 + Σ_t (β_t - β_{t-1}) log p~(x_{t-1}),

x_{t-1} the state before the sweeps at β_t, they do not: the mean of w is an unbiased estimate of Z,
and the last states, weighted by w, stand for p (Neal, *Annealed importance sampling*, 2001). How
many chains are effective says how far that reaches. At β_0 = 0 states are uniform and w_0 is the
number of joint states; a colder start comes from elsewhere (:class:`Start`).

Chains never meet, so they are independent. A chain at a state with a factor of zero is lost, so
models with many zeros are not for this; see :mod:`deltaai.messages.mini_buckets.sampling`. How many
chains and temperatures to take is decided in :mod:`deltaai.mcmc.annealing_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.models import FactorGraph, States
from deltaai.threads import limited_threads


@dataclass(frozen=True, eq=False)
class Start:
    """Where chains begin: independent weighted states of p~^beta.

    Parameters
    ----------
    beta : inverse temperature at which they stand for p.
    states : one row a chain.
    log_weights : the mean of the weights is an unbiased estimate of Z(beta).
    """

    beta: float
    states: States
    log_weights: Float64[Tensor, "chain"]

    @classmethod
    def uniform(cls, kernel: GibbsKernel, num_chains: int, generator: torch.Generator) -> Start:
        """Uniform states, which are exact at beta 0."""
        model = kernel.model
        log_count = float(model.num_states.double().log().sum())
        weights = torch.full((num_chains,), log_count, dtype=torch.float64, device=model.device)
        return cls(0.0, kernel.init(num_chains, generator).states, weights)


@torch.no_grad()
@limited_threads(1)
def annealed_importance(
    model: FactorGraph,
    num_chains: int,
    num_temperatures: int,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> tuple[States, Float64[Tensor, "chain"]]:
    """Cool chains from uniform states to the model; return their last states and log weights.

    Parameters
    ----------
    model : the target; condition it first if there is evidence.
    num_chains : independent chains.
    num_temperatures : Gibbs sweeps of each, at evenly rising inverse temperatures.
    progress : called with the inverse temperature before every sweep.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=2, sigma=0.1, seed=0)
    >>> states, log_weights = annealed_importance(
    ...     model, 1000, 10, torch.Generator().manual_seed(0))
    >>> states.shape, round(float(log_weights.logsumexp(0)) - np.log(1000).item(), 1)
    (torch.Size([1000, 4]), 2.9)
    """
    if num_temperatures < 1:
        raise ConfigError(f"at least one temperature is needed, not {num_temperatures}")
    kernel = GibbsKernel(model)
    start = Start.uniform(kernel, num_chains, generator)
    betas = np.linspace(0, 1, num_temperatures + 1).tolist()
    states, increments = cool(kernel, start, betas, 1, generator, progress)
    return states, start.log_weights + increments.sum(0)


@torch.no_grad()
@limited_threads(1)
def cool(
    kernel: GibbsKernel,
    start: Start,
    betas: Sequence[float],
    num_sweeps: int,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> tuple[States, Float64[Tensor, "step chain"]]:
    """Cool chains along a ladder; return their last states and what each step adds to log weights.

    Parameters
    ----------
    kernel : moves the chains.
    betas : inverse temperatures, rising, the first one that of the start.
    num_sweeps : Gibbs sweeps at each of them but the first.
    """
    if betas[0] != start.beta or any(later <= before for before, later in pairwise(betas)):
        raise ConfigError(f"betas must rise from that of the start, {start.beta}: {list(betas)}")
    state = kernel.init(len(start.states), generator, states=start.states)
    increments = []
    for before, beta in pairwise(betas):
        if progress is not None:
            progress(before)
        increments.append((beta - before) * kernel.log_score(state))
        for _ in range(num_sweeps):
            state, _ = kernel.step(state, generator, beta)
    if not increments:  # the start is at the target
        return start.states, torch.zeros_like(start.log_weights)[None]
    return state.states, torch.stack(increments)
