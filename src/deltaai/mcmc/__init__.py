"""Markov chains: kernels with two verbs, ``init`` and ``step``, and what is run with them."""

from deltaai.mcmc.annealed import annealed_importance
from deltaai.mcmc.chains import ChainState, Kernel, StateT, StepInfo, run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.tempering import (
    ParallelTemperingKernel,
    annealed_chains,
    geometric_betas,
    tuned_betas,
)

__all__ = [
    "ChainState",
    "GibbsKernel",
    "GibbsWithGradientsKernel",
    "Kernel",
    "ParallelTemperingKernel",
    "StateT",
    "StepInfo",
    "annealed_chains",
    "annealed_importance",
    "geometric_betas",
    "run_chains",
    "tuned_betas",
]
