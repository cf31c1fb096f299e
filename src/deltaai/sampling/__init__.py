"""Drawing states, and judging how far what was drawn can be trusted."""

from deltaai.sampling.chains import ChainState, Kernel, StepInfo, run_chains
from deltaai.sampling.gibbs import GibbsKernel
from deltaai.sampling.gradient_moves import GibbsWithGradientsKernel
from deltaai.sampling.importance import (
    ImportanceEstimate,
    estimate_from_log_weights,
    normalised_weights,
    pareto_khat,
)
from deltaai.sampling.tempering import (
    ParallelTemperingKernel,
    annealed_chains,
    geometric_betas,
    tuned_betas,
)

__all__ = [
    "ChainState",
    "GibbsKernel",
    "GibbsWithGradientsKernel",
    "ImportanceEstimate",
    "Kernel",
    "ParallelTemperingKernel",
    "StepInfo",
    "annealed_chains",
    "estimate_from_log_weights",
    "geometric_betas",
    "normalised_weights",
    "pareto_khat",
    "run_chains",
    "tuned_betas",
]
