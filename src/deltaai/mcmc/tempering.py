"""Chains at several temperatures: annealed Gibbs sampling and parallel tempering.

Both flatten the target to p~(x)^β with β <= 1, where chains cross between modes easily.

- :func:`annealed_chains` raises β to 1 over the first steps and then samples at 1, as the paper
  does for its ground truth (appendix, "Generating ground-truth Gibbs samples"). The start is
  better than a random one, but modes keep the shares in which the annealing left them.
- :class:`ParallelTemperingKernel` keeps replicas at a ladder 1 = β_0 > β_1 > ... of inverse
  temperatures and swaps neighbours with probability

      min(1, exp( (β_i - β_{i+1}) (log p~(x_{i+1}) - log p~(x_i)) )),

  which leaves the product of all p~^β_i invariant. The cold replica samples p.

:func:`tuned_betas` spaces a ladder such that all neighbours swap equally often. This file updates
no variable by itself: within a temperature, replicas move by Gibbs sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.mcmc.chains import ChainState, Kernel, StepInfo, Watch, run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.models import FactorGraph, States
from deltaai.threads import limited_threads


def annealed_chains(
    model: FactorGraph,
    num_chains: int,
    num_anneal: int,
    num_steps: int,
    generator: torch.Generator,
    *,
    lowest_beta: float | int = 0.0,
    scan: str = "systematic",
    progress: Watch | None = None,
) -> Int[Tensor, "chain var"]:
    """Run Gibbs chains from random states: annealed first, then at the target. Return their ends.

    Parameters
    ----------
    num_anneal : steps over which beta rises evenly from ``lowest_beta`` to 1.
    num_steps : further steps at beta 1.
    progress : called after each step with the steps done and the steps in all.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=3, sigma=1.0, seed=0)
    >>> annealed_chains(model, 5, 10, 10, torch.Generator().manual_seed(0)).shape
    torch.Size([5, 9])
    """
    if num_anneal < 0 or num_steps < 0:
        raise ConfigError(
            f"numbers of steps must be at least 0, not {num_anneal} annealed and {num_steps} more"
        )
    if not 0 <= lowest_beta <= 1:
        raise ConfigError(f"lowest_beta must lie between 0 and 1, not {lowest_beta}")
    rising = np.linspace(lowest_beta, 1, num_anneal, endpoint=False).tolist()
    kernel = GibbsKernel(model, scan)
    state, _ = run_chains(
        kernel,
        kernel.init(num_chains, generator),
        num_anneal + num_steps,
        generator,
        betas=[*rising, *[1.0] * num_steps],
        progress=progress,
    )
    return state.states


@dataclass(frozen=True, eq=False)
class ReplicaState(ChainState):
    """Chains with a replica at each temperature; ``columns`` is the cold one.

    Parameters
    ----------
    replicas : states of all replicas, coldest first.
    """

    replicas: Int[Tensor, "replica var chain"]


@dataclass(frozen=True)
class SwapInfo(StepInfo):
    """What a step of parallel tempering did; ``acceptance`` is the mean over all pairs.

    Parameters
    ----------
    swap_rates : share of accepted swaps between each replica and the next hotter one.
    """

    swap_rates: tuple[float, ...]


class ParallelTemperingKernel(Kernel[ReplicaState]):
    """Gibbs sweeps at each temperature, then swaps between neighbouring ones.

    Swaps are tried for the pairs (0, 1), (2, 3), ... and then for (1, 2), (3, 4), ...

    Parameters
    ----------
    model : the target.
    betas : inverse temperatures, falling, the first one 1. See :func:`tuned_betas`.
    scan : how a Gibbs sweep visits the variables.
    """

    def __init__(
        self, model: FactorGraph, betas: Sequence[float | int], scan: str = "systematic"
    ) -> None:
        super().__init__(model)
        self.betas = checked_betas(betas)
        self._gibbs = GibbsKernel(model, scan)

    def init(
        self, num_chains: int, generator: torch.Generator, states: States | None = None
    ) -> ReplicaState:
        """Start all replicas of a chain at its given state, or each at a random one."""
        count = len(self.betas)
        if states is not None:
            columns = self.start_columns(num_chains, generator, states)
            replicas = columns.expand(count, *columns.shape).contiguous()
        else:
            drawn = [self.start_columns(num_chains, generator, None) for _ in range(count)]
            replicas = torch.stack(drawn)
        return ReplicaState(replicas[0], replicas)

    @torch.no_grad()
    @limited_threads(1)
    def step(
        self, state: ReplicaState, generator: torch.Generator, beta: float | int = 1.0
    ) -> tuple[ReplicaState, SwapInfo]:
        """Sweep every replica, then try all swaps; ``beta`` multiplies the whole ladder."""
        self.check_step(state, beta)
        if len(state.replicas) != len(self.betas):
            raise ConfigError(
                f"the state has {len(state.replicas)} replicas and the ladder {len(self.betas)} "
                "temperatures: start the chains with this kernel's init"
            )
        replicas = torch.empty_like(state.replicas)
        num_updates = 0
        for number, own in enumerate(self.betas):
            alone = ChainState(state.replicas[number])
            moved, info = self._gibbs.step(alone, generator, own * beta)
            replicas[number] = moved.columns
            num_updates += info.num_updates
        scores = torch.stack([self.model.log_score(columns.T) for columns in replicas]).double()
        rates = [0.0] * (len(self.betas) - 1)
        for first in (0, 1):
            for cold in range(first, len(self.betas) - 1, 2):
                gap = (self.betas[cold] - self.betas[cold + 1]) * beta
                rates[cold] = _swap(replicas, scores, cold, gap, generator)
        acceptance = sum(rates) / len(rates) if rates else 1.0
        return ReplicaState(replicas[0], replicas), SwapInfo(acceptance, num_updates, tuple(rates))


def _swap(
    replicas: Int[Tensor, "replica var chain"],
    scores: Float[Tensor, "replica chain"],
    cold: int,
    gap: float,
    generator: torch.Generator,
) -> float:
    """Swap a replica with the next hotter one where accepted, in place; return how often."""
    # Two impossible states have no ratio (NaN): comparing says no, and they stay.
    log_acceptance = gap * (scores[cold + 1] - scores[cold])
    uniform = torch.rand(
        scores.shape[1:], generator=generator, dtype=torch.float64, device=scores.device
    )
    is_swapped = uniform.log() < log_acceptance
    for values in (replicas, scores):
        colder, hotter = values[cold].clone(), values[cold + 1].clone()
        values[cold] = torch.where(is_swapped, hotter, colder)
        values[cold + 1] = torch.where(is_swapped, colder, hotter)
    return float(is_swapped.double().mean())


def checked_betas(betas: Sequence[float | int]) -> tuple[float, ...]:
    """Refuse what is no ladder of inverse temperatures."""
    ladder = tuple(float(beta) for beta in betas)
    is_falling = all(colder > hotter for colder, hotter in pairwise(ladder))
    if not ladder or ladder[0] != 1 or not is_falling or not ladder[-1] >= 0:
        raise ConfigError(f"betas must fall from 1 and stay at least 0, not {list(betas)}")
    return ladder


def geometric_betas(num_replicas: int, lowest_beta: float | int) -> tuple[float, ...]:
    """A ladder with equal ratios.

    >>> geometric_betas(3, 0.25)
    (1.0, 0.5, 0.25)
    """
    if num_replicas < 1:
        raise ConfigError(f"at least one replica is needed, not {num_replicas}")
    if not 0 < lowest_beta < 1:
        raise ConfigError(f"lowest_beta must lie between 0 and 1, not {lowest_beta}")
    last = max(num_replicas - 1, 1)
    return tuple(math.exp(math.log(lowest_beta) * n / last) for n in range(num_replicas))


@limited_threads(1)
def tuned_betas(
    model: FactorGraph,
    num_replicas: int,
    generator: torch.Generator,
    *,
    lowest_beta: float | int = 0.1,
    num_chains: int = 100,
    num_steps: int = 30,
    num_rounds: int = 4,
) -> tuple[float, ...]:
    """A ladder whose neighbours swap about equally often.

    Starts from a geometric ladder. In each round the share of rejected swaps, added up along the
    ladder, is measured, and the temperatures are moved to where this sum is evenly spaced (Syed,
    Bouchard-Côté, Deligiannidis and Doucet, *Non-reversible parallel tempering*, 2022).

    Parameters
    ----------
    num_replicas : length of the ladder; about twice the sum of rejections is a good one.
    lowest_beta : inverse temperature of the hottest replica.
    num_chains, num_steps, num_rounds : how much is spent on measuring, each round twice as many
        steps as the last.
    """
    betas = geometric_betas(num_replicas, lowest_beta)
    if num_replicas < 3:
        return betas
    for number in range(num_rounds):
        kernel = ParallelTemperingKernel(model, betas)
        state = kernel.init(num_chains, generator)
        rejected = np.zeros(num_replicas - 1)
        steps = num_steps * 2**number
        for step in range(steps):
            state, info = kernel.step(state, generator)
            if step >= steps // 2:  # the first half is for warming up
                rejected += 1 - np.array(info.swap_rates)
        # Never quite zero, so that the sum rises and can be inverted.
        along = np.concatenate(([0.0], np.cumsum(np.maximum(rejected, 1e-6))))
        even = np.linspace(0, along[-1], num_replicas)
        inner = np.interp(even[1:-1], along, betas).tolist()
        betas = (1.0, *inner, float(lowest_beta))
    return betas
