"""Markov chains: kernels with two verbs, ``init`` and ``step``, and what is run with them."""

from deltaai.mcmc.annealed import annealed_importance, cool
from deltaai.mcmc.annealing_plan import PILOT_CHAINS, planned
from deltaai.mcmc.chains import ChainState, Kernel, StateT, StepInfo, run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.message_start import LARGEST_GAP, MessageStart
from deltaai.mcmc.registry import KERNELS, KernelBuilder, build_kernel, register_kernel
from deltaai.mcmc.tempering import (
    ParallelTemperingKernel,
    annealed_chains,
    geometric_betas,
    tuned_betas,
)

__all__ = [
    "KERNELS",
    "LARGEST_GAP",
    "PILOT_CHAINS",
    "ChainState",
    "GibbsKernel",
    "GibbsWithGradientsKernel",
    "Kernel",
    "KernelBuilder",
    "MessageStart",
    "ParallelTemperingKernel",
    "StateT",
    "StepInfo",
    "annealed_chains",
    "annealed_importance",
    "build_kernel",
    "cool",
    "geometric_betas",
    "planned",
    "register_kernel",
    "run_chains",
    "tuned_betas",
]
