"""Cooling a few chains slowly, to learn at which temperatures and with which steps others should.

From the reference to p the temperatures follow from the chains: the next β is the farthest at which
weights leave a given share of them effective,

    (Σ_i v_i)² / (N Σ_i v_i²) = share,      v_i = exp( (β' - β) s(x_i) ),

s being the slope of the path. Chains are copied by these weights, moved, and the length of their
steps driven to the acceptance that is best. What is left are temperatures, and step lengths and
scales at each of them; the chains themselves are dropped, for they decided on all this, so that
chains which are cooled by it have unbiased weights (:mod:`deltaai.mcmc.annealed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import StateError
from deltaai.mcmc.hamiltonian import HamiltonianKernel
from deltaai.mcmc.sweep_cost import SweepCost
from deltaai.mcmc.tuning import Tuning, scales_of
from deltaai.mcmc.warm_up import ACCEPTANCE
from deltaai.threads import limited_threads

_CHAINS, _MOVES = 128, 4
_SHARE = 0.8  # of chains that are effective after a step in temperature
_FEWEST_TEMPERATURES, _MOST_TEMPERATURES = 15, 300
_LEAST_GROWTH, _FIRST = 1.02, 1e-7  # of β, lest a wild density takes for ever
_RATE = 1.0  # nats of step length for each proposal more or less that is accepted


@dataclass(frozen=True, eq=False)
class Explored:
    """What was learned.

    Parameters
    ----------
    kernel : with steps for each temperature.
    betas : temperatures between which weights stay even, from 0 to 1.
    """

    kernel: HamiltonianKernel
    betas: tuple[float, ...]


@limited_threads(1)
def explored(
    kernel: HamiltonianKernel,
    generator: torch.Generator,
    work: float = math.inf,
    progress: Callable[[float], None] | None = None,
) -> Explored:
    """Cool a few chains from the kernel's reference to its model.

    Parameters
    ----------
    work : nanoseconds that may be spent, roughly; with little, there are few temperatures.
    progress : called with the inverse temperature before every change of it.

    Raises
    ------
    StateError
        If p is zero at all draws of the reference.

    Examples
    --------
    >>> from deltaai.models import FactorGraph, GaussianFactor, Variable
    >>> model = FactorGraph([Variable("x", support="line")], [GaussianFactor("x", 3.0, 1e-4)])
    >>> found = explored(HamiltonianKernel(model), torch.Generator().manual_seed(0))
    >>> found.betas[0], found.betas[-1]
    (0.0, 1.0)
    """
    real = kernel.reference.real
    state = kernel.init(_CHAINS, generator)
    step_size, scales = kernel.tuning.at(0.0)
    log_step_size = float(step_size.log().mean())
    each = _MOVES * SweepCost.of(kernel).per_sweep(_CHAINS, 1)
    most = int(min(max(work / each, _FEWEST_TEMPERATURES), _MOST_TEMPERATURES))
    betas, lengths, all_scales = [0.0], [log_step_size], [scales]
    while betas[-1] < 1:
        if progress is not None:
            progress(betas[-1])
        slope = kernel.log_slope(state)
        if not bool((slope > -torch.inf).any()):
            raise StateError("the model has probability zero wherever chains over it could start")
        is_last = len(betas) == most
        beta = 1.0 if is_last else _next_beta(betas[-1], slope)
        weights = ((beta - betas[-1]) * slope).softmax(0)
        kept = torch.multinomial(weights.cpu(), _CHAINS, replacement=True, generator=generator)
        state = state.copied(kept.to(slope.device))
        positions = state.columns[real].double()
        scales = scales_of(positions, kernel.slopes(state, beta), kernel.reference.width)
        for _ in range(_MOVES):
            tried = Tuning.constant(scales.new_full((1,), math.exp(log_step_size)), scales)
            state, proposed = kernel.moved(state, generator, beta, tried)
            log_step_size += _RATE * (float(proposed.chances.mean()) - ACCEPTANCE)
        betas.append(beta)
        lengths.append(log_step_size)
        all_scales.append(scales)
    log_lengths = torch.tensor(lengths, dtype=torch.float64, device=scales.device)[:, None]
    tuning = Tuning(tuple(betas), log_lengths, torch.stack(all_scales).log())
    return Explored(kernel.tuned(tuning), tuple(betas))


def _next_beta(beta: float, slope: Float64[Tensor, "chain"]) -> float:
    """The farthest at which enough chains are effective, by bisection; 1 if that is the target."""
    alive = slope[slope > -torch.inf]  # the others are lost at any temperature

    def share(step: float) -> float:
        weights = (step * alive).softmax(0)
        return 1 / float(weights.square().sum()) / len(alive)

    if share(1 - beta) >= _SHARE:
        return 1.0
    low, high = math.log(1e-12), math.log(1 - beta)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if share(math.exp(middle)) >= _SHARE else (low, middle)
    return min(max(beta + math.exp(low), _LEAST_GROWTH * beta, _FIRST), 1.0)
