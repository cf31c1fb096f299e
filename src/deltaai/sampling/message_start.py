"""Where annealed chains begin: messages of a flattened model, or uniform states.

Messages (:mod:`deltaai.messages.mini_bucket_sampling`) lose the less the flatter a model is: those
of p~^β are nearly exact for a small β, whatever p is. So chains need not be cooled from β = 0. Each
starts from a group of particles of its own, drawn from messages at β_0; one of the particles is
chosen in proportion to its weight, and the chain's weight is the mean of the group,

    w_0 = 1/G Σ_i w_i,        P(start at x_i) = w_i / Σ_j w_j,

which is properly weighted for p~^β_0, unbiased, and independent from chain to chain. β_0 is the
coldest of a few at which most groups are effective, by draws that are not used again, and at which
the bound on log Z is near enough for draws to hit whatever there is: even weights alone say nothing
of parts that are never drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from deltaai.errors import NotAffordableError
from deltaai.messages.mini_bucket_sampling import MessageSampler
from deltaai.sampling.annealed_importance import Start
from deltaai.sampling.gibbs import GibbsKernel
from deltaai.sampling.importance import log_means

_BETAS = tuple(number / 8 for number in range(1, 8))
_GROUP_SIZE = 32  # particles of a chain
_PILOT_GROUPS = 64
_ENOUGH = 0.6  # share of groups that must be effective
# Of the bound above log Z, in nats. Twenty thousand draws then hit a part of 4 % for certain.
_LARGEST_GAP = 5.5


@dataclass(frozen=True, eq=False)
class MessageStart:
    """Draws starts of chains; without a sampler they are uniform.

    Parameters
    ----------
    kernel : that will move the chains.
    beta : inverse temperature of the messages.
    sampler : draws from them.
    """

    kernel: GibbsKernel
    beta: float = 0.0
    sampler: MessageSampler | None = None

    @classmethod
    def coldest(
        cls,
        kernel: GibbsKernel,
        generator: torch.Generator,
        build: Callable[[float], MessageSampler],
        progress: Callable[[float], None] | None = None,
    ) -> MessageStart:
        """Find the coldest temperature at which messages are still good, by halving.

        Parameters
        ----------
        build : makes messages of the kernel's model at an inverse temperature.
        """
        found = cls(kernel)
        low, high = 0, len(_BETAS)  # all below low are good, none from high on
        while low < high:
            middle = (low + high) // 2
            if progress is not None:
                progress(0.0)
            try:
                sampler = build(_BETAS[middle])
            except NotAffordableError:
                return found
            tried = cls(kernel, _BETAS[middle], sampler)
            log_weights = tried.draw(_PILOT_GROUPS, generator).log_weights
            is_even = float(log_weights.softmax(0).square().sum()) * _ENOUGH * _PILOT_GROUPS <= 1
            gap = sampler.upper - float(log_weights.logsumexp(0)) + math.log(_PILOT_GROUPS)
            if is_even and gap <= _LARGEST_GAP:
                found, low = tried, middle + 1
            else:
                high = middle
        return found

    def draw(self, num_chains: int, generator: torch.Generator) -> Start:
        """Start chains, independent of each other."""
        if self.sampler is None:
            return Start.uniform(self.kernel, num_chains, generator)
        states, log_weights = self.sampler.draw(num_chains * _GROUP_SIZE, 1, generator)
        shares = log_weights.view(num_chains, _GROUP_SIZE).softmax(1)
        chosen = torch.multinomial(shares, 1, generator=generator)[:, 0]
        rows = torch.arange(num_chains, device=states.device) * _GROUP_SIZE + chosen
        return Start(self.beta, states[rows], log_means(log_weights, _GROUP_SIZE))
