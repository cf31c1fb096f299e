"""States of the target to measure samplers against, and a word for where they come from.

Where the clique tables fit into memory the states are independent exact samples, and their exact
log-probabilities come with them, so that a likelihood has an exact counterpart. Elsewhere they are
the ends of Gibbs chains, as in the paper: the energy is annealed first, so that the chains are not
caught by a few modes, then run at temperature 1. Such chains are a good guess, not the truth, and
a result that rests on them must say so.

This file neither samples nor infers by itself, and keeps nothing on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.errors import ConfigError, MemoryLimitError
from deltaai.exact import exact
from deltaai.mcmc import annealed_chains
from deltaai.models import FactorGraph
from deltaai.randomness import generator_of

Source = Literal["exact", "annealed Gibbs"]


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """States of the target.

    Parameters
    ----------
    states : one row each.
    source : ``"exact"`` or ``"annealed Gibbs"``.
    log_prob : exact log-probability of each state, or ``None`` where it is not known.
    log_partition : exact log Z, or ``None``.
    """

    states: Int[Tensor, "sample var"] = field(repr=False)
    source: Source
    log_prob: Float64[Tensor, "sample"] | None = field(repr=False)
    log_partition: float | None

    @property
    def is_exact(self) -> bool:
        """Whether the states are exact samples."""
        return self.source == "exact"

    @property
    def mean_negative_log_likelihood(self) -> float | None:
        """Mean of -log p over these very states: what a perfect sampler would score."""
        return None if self.log_prob is None else float(-self.log_prob.mean())


def ground_truth(
    model: FactorGraph,
    num_samples: int,
    seed: int,
    memory_limit: int | None = None,
    *,
    num_anneal: int = 10_000,
    num_steps: int = 10_000,
) -> GroundTruth:
    """Draw states of the target, exactly if the tables fit.

    Parameters
    ----------
    model : the target.
    num_samples : how many states.
    seed : of all randomness here.
    memory_limit : bytes that exact tables may take (default: half of what is free). Give it where
        the choice between exact and not must not depend on the machine.
    num_anneal, num_steps : Gibbs sweeps while annealing and after it, if it comes to chains.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> truth = ground_truth(zoo.ising_lattice(side=4, sigma=0.2, seed=0), 100, seed=0)
    >>> truth.source, tuple(truth.states.shape)
    ('exact', (100, 16))
    """
    if num_samples < 1:
        raise ConfigError(f"the number of samples is {num_samples}: it must be at least 1")
    generator = generator_of(seed)
    try:
        engine = exact(model, memory_limit=memory_limit)
    except MemoryLimitError:
        return _from_chains(model, num_samples, num_anneal, num_steps, generator)
    states = engine.sample(num_samples, generator)
    log_prob = engine.log_prob(states).double()
    return GroundTruth(states, "exact", log_prob, engine.log_partition())


def _from_chains(
    model: FactorGraph,
    num_samples: int,
    num_anneal: int,
    num_steps: int,
    generator: torch.Generator,
) -> GroundTruth:
    """One state from each of as many independent chains, as in the paper."""
    states = annealed_chains(model, num_samples, num_anneal, num_steps, generator)
    return GroundTruth(states.contiguous(), "annealed Gibbs", None, None)
