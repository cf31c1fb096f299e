"""Chains that are cooled, and weights that know what that cost: annealed importance sampling.

Chains start at states of π_β_0, each with a weight w_0 whose mean is Z(β_0), and are cooled
through β_0 < β_1 < ... < β_T = 1. Sweeps alone leave modes in the shares in which cooling found
them, metastable states included. With the slope s = ∂ log π~_β / ∂β of the path of targets, which
is log p~ where π_β ∝ p~^β, and

    log w = log w_0 + Σ_t (β_t - β_{t-1}) s(x_{t-1}),

x_{t-1} the state before the sweeps at β_t, they do not: the mean of w is an unbiased estimate of Z,
and the last states, weighted by w, stand for p (Neal, *Annealed importance sampling*, 2001). How
many chains are effective says how far that reaches. At β_0 = 0 states are drawn as the kernel
starts them: uniform states, w_0 their number, or real variables from the reference of the path
(:mod:`deltaai.mcmc.chains`); a colder start comes from elsewhere (:class:`Start`).

Chains may meet on the way (*population annealing*; Hukushima and Iba, 2003): when their weights
have become uneven, they are copied in proportion to them and go on with even ones
(:mod:`deltaai.resampling`). Where weights would spread by V nats², about N / (1 + V) of N chains
are then effective, not N exp(-V). All chains that come from one start are a *family*. Families
start independently, so a family counts once: with one of its members, drawn by weight, and the sum
of their weights (Chan and Lai, *A general theory of particle filters*, 2013, judge errors in this
way). That copies move apart while they are warm is not counted.

A chain at a state with a factor of zero is lost, so models with many zeros are not for this; see
:mod:`deltaai.messages.mini_buckets.sampling`. How many chains and temperatures to take is decided
in :mod:`deltaai.mcmc.annealing_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.mcmc.chains import Kernel, StateT
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.models import FactorGraph, States
from deltaai.randomness import uniform
from deltaai.resampling import resampled
from deltaai.threads import limited_threads


@dataclass(frozen=True, eq=False)
class Start:
    """Where chains begin: independent weighted states of p~^beta.

    Parameters
    ----------
    beta : inverse temperature of the target that they stand for.
    states : one row a chain.
    log_weights : the mean of the weights is an unbiased estimate of Z(beta).
    """

    beta: float
    states: States
    log_weights: Float64[Tensor, "chain"]

    @classmethod
    def hottest(cls, kernel: Kernel[StateT], num_chains: int, generator: torch.Generator) -> Start:
        """States as the kernel starts them, which are exact at beta 0."""
        log_total, device = kernel.log_partition_at_zero, kernel.model.device
        weights = torch.full((num_chains,), log_total, dtype=torch.float64, device=device)
        return cls(0.0, kernel.init(num_chains, generator).states, weights)


@dataclass(frozen=True, eq=False)
class Cooled:
    """Chains at the end of a ladder.

    Parameters
    ----------
    states : one row a chain.
    log_weights : the mean of the weights is an unbiased estimate of Z.
    ancestors : the start that each chain comes from; its own number if chains never met.
    increments : what each step added to the log weights.
    """

    states: States
    log_weights: Float64[Tensor, "chain"]
    ancestors: Int[Tensor, "chain"]
    increments: Float64[Tensor, "step chain"]

    def families(self, generator: torch.Generator) -> tuple[States, Float64[Tensor, "chain"]]:
        """A member of each family and the weight of all; weight zero for those that died out."""
        count, device = len(self.ancestors), self.ancestors.device
        log_total = self.log_weights.logsumexp(0)
        order = torch.argsort(self.ancestors, stable=True)
        shares = (self.log_weights - log_total).exp()
        sums = torch.zeros_like(shares).index_add_(0, self.ancestors, shares)
        ends = sums.cumsum(0)
        offset = uniform((count,), generator, dtype=torch.float64, device=device)
        points = ends - sums + offset * sums
        chosen = torch.searchsorted(shares[order].cumsum(0), points, right=True)
        # Rounding may step over the edge of a family.
        sizes = torch.bincount(self.ancestors, minlength=count)
        last = sizes.cumsum(0) - 1
        chosen = torch.minimum(torch.maximum(chosen, last - sizes + 1), last.clamp(min=0))
        return self.states[order[chosen]], sums.log() + log_total


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
    start = Start.hottest(kernel, num_chains, generator)
    betas = np.linspace(0, 1, num_temperatures + 1).tolist()
    cooled = cool(kernel, start, betas, 1, generator, progress)
    return cooled.states, cooled.log_weights


@torch.no_grad()
@limited_threads(1)
def cool(
    kernel: Kernel[StateT],
    start: Start,
    betas: Sequence[float],
    num_sweeps: int,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
    *,
    may_meet: bool = False,
) -> Cooled:
    """Cool chains along a ladder.

    Parameters
    ----------
    kernel : moves the chains.
    betas : inverse temperatures, rising, the first one that of the start.
    num_sweeps : steps of the kernel at each of them but the first.
    may_meet : whether chains are copied by their weights when these have become uneven.
    """
    if betas[0] != start.beta or any(later <= before for before, later in pairwise(betas)):
        raise ConfigError(f"betas must rise from that of the start, {start.beta}: {list(betas)}")
    state = kernel.init(len(start.states), generator, states=start.states)
    log_weights = start.log_weights.clone()
    ancestors = torch.arange(len(log_weights), device=log_weights.device)
    increments = []
    for before, beta in pairwise(betas):
        if progress is not None:
            progress(before)
        increments.append((beta - before) * kernel.log_slope(state))
        log_weights += increments[-1]
        kept = resampled(log_weights[None], generator) if may_meet else None
        if kept is not None:
            ancestors = ancestors[kept]
            state = state.copied(kept)
        for _ in range(num_sweeps):
            state, _ = kernel.step(state, generator, beta)
    if not increments:  # the start is at the target
        increments = [torch.zeros_like(log_weights)]
    return Cooled(state.states, log_weights, ancestors, torch.stack(increments))
