"""Annealed importance sampling: chains that are cooled, and weights that know what that cost.

Chains start at uniform states and are cooled through 0 = β_0 < β_1 < ... < β_T = 1. Gibbs sweeps
alone leave modes in the shares in which cooling found them, metastable states included. With

    log w = Σ_v log K_v + Σ_t (β_t - β_{t-1}) log p~(x_{t-1}),

x_{t-1} the state before the sweep at β_t, they do not: the mean of w is an unbiased estimate of Z,
and the last states, weighted by w, stand for p (Neal, *Annealed importance sampling*, 2001). How
many chains are effective says how far that reaches. A chain at a state with a factor of zero is
lost, so models with many zeros are not for this; see :mod:`deltaai.messages.mini_buckets.sampling`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.models import FactorGraph, States
from deltaai.threads import limited_threads


@torch.no_grad()
@limited_threads(1)
def annealed_importance(
    model: FactorGraph,
    num_chains: int,
    num_temperatures: int,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> tuple[States, Float64[Tensor, "chain"]]:
    """Cool chains to the model; return their last states and log weights.

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
    state = kernel.init(num_chains, generator)
    log_count = float(model.num_states.double().log().sum())
    log_weights = torch.full((num_chains,), log_count, dtype=torch.float64, device=model.device)
    betas = np.linspace(0, 1, num_temperatures + 1)
    for before, beta in zip(betas[:-1].tolist(), betas[1:].tolist(), strict=True):
        if progress is not None:
            progress(before)
        log_weights += (beta - before) * model.log_score(state.states).double()
        state, _ = kernel.step(state, generator, beta)
    return state.states, log_weights
