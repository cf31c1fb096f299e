"""Where the values of training states come from: q itself, data, or Markov chains.

Each gives full, likely states. Those of q, which objectives are usually evaluated at, are drawn
anew given the evidence once that is known; those of data and of chains stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.mcmc import ChainState, GibbsKernel, HamiltonianKernel, Kernel
from deltaai.models import Columns, FactorGraph, on_cpu
from deltaai.randomness import integers

_SWEEPS = 5  # of the chains between draws


class Values(ABC):
    """Full states from somewhere."""

    @abstractmethod
    def draw(self, proposal: Proposal, size: int, generator: torch.Generator) -> Columns:
        """Full states, not given any evidence."""

    def state(self) -> dict[str, Any]:
        """What the next draw depends on, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027  most have nothing to keep
        """Take up what :meth:`state` gave."""


class DataValues(Values):
    """Rows of data, at random.

    Parameters
    ----------
    rows : full states, one row each.
    """

    def __init__(self, rows: Num[Tensor, "row var"]) -> None:
        self.rows = rows

    def draw(self, proposal: Proposal, size: int, generator: torch.Generator) -> Columns:
        """Rows with replacement."""
        chosen = integers(len(self.rows), (size,), generator, self.rows.device)
        columns = self.rows[chosen].T.contiguous()
        return columns.to(proposal.device, proposal.value_dtype)


def _kernel_of(model: FactorGraph) -> Kernel[Any]:
    return GibbsKernel(model) if model.is_discrete else HamiltonianKernel(model)


class ChainValues(Values):
    """Chains of the target that go on from draw to draw, at its temperature, on the CPU.

    They are Gibbs chains where all variables have states, and Hamiltonian ones elsewhere.
    """

    def __init__(self) -> None:
        self.chains: ChainState | None = None
        self._kernel: tuple[FactorGraph, Kernel[Any]] | None = None

    def draw(self, proposal: Proposal, size: int, generator: torch.Generator) -> Columns:
        """Where the chains stand after some sweeps."""
        target = proposal.target.untempered.now(torch.float64)
        if self._kernel is None or self._kernel[0] is not target:  # p has moved
            self._kernel = target, _kernel_of(on_cpu(target))
        kernel = self._kernel[1]
        if self.chains is None or self.chains.num_chains != size:
            self.chains = kernel.init(size, generator)
        elif not isinstance(kernel, GibbsKernel):  # it keeps more than where chains are
            self.chains = kernel.init(size, generator, self.chains.states)
        for _ in range(_SWEEPS):
            self.chains, _ = kernel.step(self.chains, generator, proposal.target.beta)
        return self.chains.columns.to(proposal.device, proposal.value_dtype)

    def state(self) -> dict[str, Any]:
        """Where the chains stand."""
        return {} if self.chains is None else {"chains": self.chains.columns}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up the chains."""
        self.chains = ChainState(state["chains"]) if "chains" in state else None
