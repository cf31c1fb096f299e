"""Markov chains: kernels with two verbs, ``init`` and ``step``, and what is run with them."""

from deltaai.mcmc.annealed import Start, annealed_importance, cool
from deltaai.mcmc.annealing_plan import PILOT_CHAINS, planned
from deltaai.mcmc.chains import ChainState, Kernel, StateT, StepInfo, run_chains
from deltaai.mcmc.exploration import Explored, explored
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.hamiltonian import HamiltonianKernel, HamiltonianState, langevin
from deltaai.mcmc.message_start import LARGEST_GAP, MessageStart
from deltaai.mcmc.reference import Reference
from deltaai.mcmc.registry import KERNELS, KernelBuilder, build_kernel, register_kernel
from deltaai.mcmc.tempering import (
    ParallelTemperingKernel,
    annealed_chains,
    geometric_betas,
    tuned_betas,
)
from deltaai.mcmc.tuning import Tuning
from deltaai.mcmc.warm_up import adapted
from deltaai.mcmc.wide_references import wide_reference

__all__ = [
    "KERNELS",
    "LARGEST_GAP",
    "PILOT_CHAINS",
    "ChainState",
    "Explored",
    "GibbsKernel",
    "GibbsWithGradientsKernel",
    "HamiltonianKernel",
    "HamiltonianState",
    "Kernel",
    "KernelBuilder",
    "MessageStart",
    "ParallelTemperingKernel",
    "Reference",
    "Start",
    "StateT",
    "StepInfo",
    "Tuning",
    "adapted",
    "annealed_chains",
    "annealed_importance",
    "build_kernel",
    "cool",
    "explored",
    "geometric_betas",
    "langevin",
    "planned",
    "register_kernel",
    "run_chains",
    "tuned_betas",
    "wide_reference",
]
