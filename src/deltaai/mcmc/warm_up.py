"""Warm-up of Hamiltonian chains: steps are tuned while they run, and kept from then on.

The chains of a warm-up are no samples, for what a step did to them decided how long the next was.
They start wherever they start, so scales are taken anew several times, and the last ones stand
while the step length settles. Everything follows from the chains and the generator.
"""

from __future__ import annotations

import math

import torch

from deltaai.errors import ConfigError
from deltaai.mcmc.chains import Watch
from deltaai.mcmc.hamiltonian import HamiltonianKernel, HamiltonianState
from deltaai.mcmc.tuning import StepSearch, Tuning, scales_of
from deltaai.threads import limited_threads

# Shares of proposals that should be accepted, with many leapfrog steps and with one.
ACCEPTANCE, _ACCEPTANCE_OF_ONE = 0.8, 0.6
_RENEWALS = (0.15, 0.3, 0.5, 0.7)  # shares of the warm-up at which scales are taken anew


@limited_threads(1)
def adapted(
    kernel: HamiltonianKernel,
    start: HamiltonianState | int,
    generator: torch.Generator,
    *,
    num_steps: int = 100,
    acceptance: float | None = None,
    beta: float = 1.0,
    progress: Watch | None = None,
) -> tuple[HamiltonianKernel, HamiltonianState]:
    """Run chains and tune steps to them; return a kernel whose steps stay, and the chains.

    Parameters
    ----------
    start : chains, or how many are to start at draws of the reference.
    num_steps : steps of the warm-up.
    acceptance : share of proposals that should be accepted; 0.8, or 0.6 with one leapfrog step.
    beta : inverse temperature of the target.
    progress : called after each step with the steps done and the steps in all.

    Examples
    --------
    >>> from deltaai.models import FactorGraph, GaussianFactor, Variable
    >>> model = FactorGraph([Variable("x", support="line")], [GaussianFactor("x", 3.0, 0.25)])
    >>> kernel = HamiltonianKernel(model, 1e-3)
    >>> kernel, state = adapted(kernel, 500, torch.Generator().manual_seed(0))
    >>> step_size, scales = kernel.tuning.at(1.0)
    >>> bool(step_size > 0.5), round(float(scales), 1)
    (True, 0.5)
    """
    if num_steps < 1:
        raise ConfigError(f"a warm-up takes at least one step, not {num_steps}")
    if acceptance is None:
        acceptance = ACCEPTANCE if kernel.num_leapfrog > 1 else _ACCEPTANCE_OF_ONE
    if not 0 < acceptance < 1:
        raise ConfigError(f"acceptance must lie between 0 and 1, not {acceptance}")
    state = kernel.init(start, generator) if isinstance(start, int) else start
    kernel.check_step(state, beta)
    step_size, scales = kernel.tuning.at(beta)
    search = StepSearch(float(step_size.log().mean()), acceptance)
    renewals = {math.ceil(share * num_steps) for share in _RENEWALS}
    for number in range(num_steps):
        if number in renewals:
            scales = scales_of(
                state.columns[kernel.reference.real].double(),
                kernel.slopes(state, beta),
                kernel.reference.width,
            )
            search = StepSearch(search.averaged, acceptance)
        tried = _tuning(search.current, scales)
        state, proposed = kernel.moved(state, generator, beta, tried)
        search.found(float(proposed.chances.mean()))
        if progress is not None:
            progress(number + 1, num_steps)
    return kernel.tuned(_tuning(search.averaged, scales)), state


def _tuning(log_step_size: float, scales: torch.Tensor) -> Tuning:
    return Tuning.constant(scales.new_full((1,), math.exp(log_step_size)), scales)
