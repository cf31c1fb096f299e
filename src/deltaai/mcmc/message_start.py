"""Where annealed chains begin: messages of a flattened model, or uniform states.

Messages (:mod:`deltaai.messages.mini_buckets.sampling`) lose the less the flatter a model is: those
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
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import NotAffordableError
from deltaai.importance import log_means
from deltaai.mcmc.annealed import Start
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.messages import MessageSampler
from deltaai.models import States

_BETAS = tuple(number / 8 for number in range(1, 8))
_GROUP_SIZE, _AT_ONCE = 8, 512  # particles of a chain, and chains whose particles are held
_PILOT_GROUPS = 64
_ENOUGH = 0.6  # share of groups that must be effective
# Of the bound above log Z, in nats. Twenty thousand draws then hit a part of 4 % for certain.
LARGEST_GAP = 5.5


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
        likely: float = 0.5,
        progress: Callable[[float], None] | None = None,
    ) -> MessageStart:
        """Find the coldest temperature at which messages are still good, one after the other.

        Parameters
        ----------
        build : makes messages of the kernel's model at an inverse temperature.
        likely : where to look first.
        """
        found, is_cooling = cls(kernel), True
        place = sum(beta < likely for beta in _BETAS[:-1])
        while 0 <= place < len(_BETAS):
            if progress is not None:
                progress(0.0)
            try:
                sampler = build(_BETAS[place])
            except NotAffordableError:
                break
            tried = cls(kernel, _BETAS[place], sampler)
            if tried._is_good(generator):
                found = tried
                if not is_cooling:
                    break
                place += 1
            elif found.sampler is not None:
                break
            else:
                place, is_cooling = place - 1, False
        return found

    def _is_good(self, generator: torch.Generator) -> bool:
        """Whether weights are even, and the bound so near that draws hit all there is."""
        log_weights = self.draw(_PILOT_GROUPS, generator).log_weights
        upper = math.inf if self.sampler is None else self.sampler.upper
        gap = upper - float(log_weights.logsumexp(0)) + math.log(_PILOT_GROUPS)
        share = 1 / float(log_weights.softmax(0).square().sum()) / _PILOT_GROUPS
        return gap <= LARGEST_GAP and share >= _ENOUGH

    def draw(self, num_chains: int, generator: torch.Generator) -> Start:
        """Start chains, independent of each other."""
        if self.sampler is None:
            return Start.hottest(self.kernel, num_chains, generator)
        # A few at a time: particles of all chains would take much memory.
        starts = [
            self._chosen(self.sampler, min(num_chains - first, _AT_ONCE), generator)
            for first in range(0, num_chains, _AT_ONCE)
        ]
        states, log_weights = (torch.cat(parts) for parts in zip(*starts, strict=True))
        return Start(self.beta, states, log_weights)

    @staticmethod
    def _chosen(
        sampler: MessageSampler, num_chains: int, generator: torch.Generator
    ) -> tuple[States, Float64[Tensor, "chain"]]:
        """One particle of each group, and the mean weight of the group."""
        states, log_weights = sampler.draw(num_chains * _GROUP_SIZE, 1, generator)
        shares = log_weights.view(num_chains, _GROUP_SIZE).softmax(1)
        chosen = torch.multinomial(shares, 1, generator=generator)[:, 0]
        rows = torch.arange(num_chains, device=states.device) * _GROUP_SIZE + chosen
        return states[rows], log_means(log_weights, _GROUP_SIZE)
