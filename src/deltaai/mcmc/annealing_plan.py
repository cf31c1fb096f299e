"""How many chains to cool, and how slowly: decided by a few pilot chains.

With T sweeps between the start and the target, the variance of log weights is about A / T, A being
a property of the model and the start. Of N chains that may meet about N / (1 + A / T) families are
then effective, and both cost: N T sweeps are all that can be had. A few pilot chains tell A; they
are not used again, so what follows from them does not bias the weights of other chains. They also
tell where the variance arises: with s_j² its part from the j-th stretch of β, the whole is least if
the number of temperatures in a stretch is in proportion to s_j (Lagrange). Pilots go by evenly
spaced temperatures, or by those that are known to suit, as for real variables
(:mod:`deltaai.mcmc.exploration`), where a stretch is a step between two of these.

What sweeps cost is in :mod:`deltaai.mcmc.sweep_cost`. Nothing is cooled here but pilots; see
:mod:`deltaai.mcmc.annealed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.mcmc.annealed import Start, cool
from deltaai.mcmc.chains import Kernel, StateT
from deltaai.mcmc.sweep_cost import SweepCost

# Chains and temperatures of a pilot, and the share of all work that it may take.
PILOT_CHAINS, _PILOT_TEMPERATURES, _PILOT_SHARE = 64, 100, 0.1
_STRETCHES = 10  # of inverse temperature, whose variances are told apart
_FEWEST_CHAINS, _MOST_SWEEPS = 100, 20_000
# A is a guess from few chains cooled fast, and too many sweeps cost less than too few.
_CAUTION = 2.0
_HIGH = 1.2816  # deviations above the median of a normal density where a tenth is left


@dataclass(frozen=True)
class AnnealingPlan:
    """Chains, the ladder they are cooled along, and sweeps at each temperature of it."""

    num_chains: int
    betas: tuple[float, ...]
    num_sweeps: int


def planned(
    kernel: Kernel[StateT],
    pilot: Start,
    work: float,
    most_chains: int,
    wanted: float,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
    *,
    suitable: Sequence[float] | None = None,
) -> AnnealingPlan:
    """Spend work where it makes the most chains effective.

    Parameters
    ----------
    pilot : where the pilot chains start; others of its kind will follow.
    work : nanoseconds that may be spent, roughly.
    most_chains : chains that may be cooled.
    wanted : effective families that are enough; with fewer, all work is spent.
    suitable : temperatures that pilots may go by, from that of the start to 1.
    """
    cost = SweepCost.of(kernel)
    at_one = cost.sweeps_at_one
    each = cost.per_sweep(len(pilot.states), at_one) * at_one
    if suitable is None:
        num_steps = max(_STRETCHES, min(int(_PILOT_SHARE * work / each), _PILOT_TEMPERATURES))
        betas, stretches = np.linspace(pilot.beta, 1, num_steps + 1), _STRETCHES
    else:
        betas, stretches = np.array(suitable), len(suitable) - 1
        num_steps = stretches
    increments = cool(kernel, pilot, betas.tolist(), at_one, generator, progress).increments
    is_alive = increments.isfinite().all(0)  # others say nothing of how weights spread
    if not bool(is_alive.all()):
        increments = increments[:, is_alive]
    spread = np.std if suitable is None else _robust_spread
    total = increments.sum(0)
    variance = float(total.var()) if suitable is None else _robust_spread(total.cpu().numpy()) ** 2
    difficulty = _CAUTION * variance * num_steps * at_one
    num_chains, num_sweeps = _division(cost, at_one, work, most_chains, wanted, difficulty)
    ladder = _ladder(betas, increments, max(num_sweeps // at_one, _STRETCHES), stretches, spread)
    return AnnealingPlan(num_chains, ladder, at_one)


def _robust_spread(values: Float64[np.ndarray, "chain"]) -> float:
    """A deviation that does not heed chains whose weights are as good as zero, if not many."""
    if len(values) < 2:
        return math.inf
    middle, high = np.quantile(values, (0.5, 0.9))
    return float(high - middle) / _HIGH


def _division(
    cost: SweepCost, at_one: int, work: float, most_chains: int, wanted: float, difficulty: float
) -> tuple[int, int]:
    """Chains and sweeps: the cheapest that are enough, or else the best that work can buy."""
    candidates = []
    num_chains = min(_FEWEST_CHAINS, most_chains)
    while True:
        affordable = min(work / cost.per_sweep(num_chains, at_one), _MOST_SWEEPS)
        # Fewest sweeps that leave as many effective as are wanted: N / (1 + A / T) = wanted.
        is_possible = num_chains > wanted
        enough = difficulty / (num_chains / wanted - 1) if is_possible else math.inf
        num_sweeps = max(int(min(affordable, enough)), _STRETCHES * at_one)
        effective = num_chains / (1 + difficulty / num_sweeps)
        spent = num_sweeps * cost.per_sweep(num_chains, at_one)
        is_enough = effective >= 0.95 * wanted
        candidates.append((is_enough, -spent if is_enough else effective, num_chains, num_sweeps))
        if num_chains == most_chains:
            return max(candidates)[2:]
        num_chains = min(math.ceil(1.25 * num_chains), most_chains)


def _ladder(
    betas: Float64[np.ndarray, "one_more"],
    increments: Float64[Tensor, "step chain"],
    num_steps: int,
    stretches: int,
    spread: Callable[[np.ndarray], np.floating[Any] | float],
) -> tuple[float, ...]:
    """Temperatures in proportion to the spread that pilot chains found around them."""
    parts = np.array_split(increments.cpu().numpy(), stretches)
    edges = betas[np.cumsum([0, *map(len, parts)])]
    spreads = np.array([spread(part.sum(0)) for part in parts])
    # Never far below the mean: a spread is known from few chains.
    spreads = np.maximum(spreads, max(0.3 * spreads.mean(), 1e-9))
    along = np.concatenate(([0.0], np.cumsum(spreads)))
    inner = np.interp(np.linspace(0, along[-1], num_steps + 1), along, edges).tolist()
    return (float(betas[0]), *inner[1:-1], 1.0)
