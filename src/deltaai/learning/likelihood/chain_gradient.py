"""Markov chains in both phases: persistent contrastive divergence, with or without tempering.

The negative states are those of chains that never start anew (Tieleman, 2008): p moves little in
an update, so that a few sweeps take the chains to where it is now. Above the temperature at which
p falls into modes that is all there is to say; below it chains stay in their mode, and replicas at
higher temperatures (:class:`~deltaai.mcmc.ParallelTemperingKernel`) let them cross.

Kernels keep what they know of a model that stands still, so they are made for p as it is, once an
update. Missing cells are those of Gibbs chains in which the observed ones are held, a few for each
incomplete row; these persist, too, and move when their row is in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.learning.likelihood.expectations import Expectation, WeightedStates
from deltaai.learning.likelihood.gradients import GradientSettings, PhasedGradient
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.mcmc import ChainState, GibbsKernel, Kernel, build_kernel
from deltaai.models import FactorGraph, Target

_FIRST_SWEEPS = 20  # of chains that begin at random states


class ChainGradient(PhasedGradient):
    """Negative states from chains of a kernel, missing cells from clamped Gibbs chains.

    Parameters
    ----------
    model, rows, settings : see :class:`~deltaai.learning.likelihood.gradients.Gradient`.
    kernel : name of the kernel.
    """

    def __init__(
        self, model: FactorGraph, rows: LearningRows, settings: GradientSettings, kernel: str
    ) -> None:
        super().__init__(model, rows, settings)
        self._target, self._name = Target(model), kernel
        self._chains: ChainState = self._kernel().init(settings.num_samples, self.generator)
        self._is_warm = False
        self._fillings = self._random_fillings()
        self._is_begun = torch.zeros(len(self._fillings), dtype=torch.bool, device=model.device)

    def _kernel(self) -> Kernel[Any]:
        """The kernel for p as it is at this moment."""
        return build_kernel(self._name, self._target.now(torch.float64))

    def negative(self) -> Expectation:
        """Where the chains stand after some sweeps."""
        kernel = self._kernel()
        for _ in range(self.settings.sweeps if self._is_warm else _FIRST_SWEEPS):
            self._chains, _ = kernel.step(self._chains, self.generator)
        self._is_warm = True
        return WeightedStates.even(self._chains.states, 1.0)

    def filled(self, incomplete: Int[Tensor, "chosen"], share: float) -> Expectation:
        """Where the chains of these rows stand after some sweeps."""
        places = self.rows.place_among_incomplete[incomplete]
        each = self.settings.num_fillings
        kernel = GibbsKernel(self._target.now(torch.float64))
        states = self._fillings[places].flatten(0, 1)
        held = (self.rows.states[incomplete] >= 0).repeat_interleave(each, 0)
        chains = kernel.init(len(states), self.generator, states, held)
        is_first = not bool(self._is_begun[places].all())
        for _ in range(_FIRST_SWEEPS if is_first else self.settings.sweeps):
            chains, _ = kernel.step(chains, self.generator)
        self._fillings[places] = chains.columns.T.reshape(len(places), each, -1)
        self._is_begun[places] = True
        return WeightedStates.even(chains.states, share)

    def _random_fillings(self) -> Int[Tensor, "incomplete filling var"]:
        """Incomplete rows with anything in their missing cells, in the smallest integer type."""
        each, num_variables = self.settings.num_fillings, self.model.num_variables
        rows = self.rows.states[~self.rows.is_complete]
        if not len(rows):
            return rows.reshape(0, each, num_variables)
        anything = self._kernel().start_columns(len(rows) * each, self.generator, None).T
        given = rows.to(anything.dtype).repeat_interleave(each, 0)
        return torch.where(given >= 0, given, anything).reshape(len(rows), each, num_variables)

    def state(self) -> dict[str, Any]:
        """Where all chains stand."""
        tensors = {field.name: getattr(self._chains, field.name) for field in fields(self._chains)}
        chains = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
        return {
            **super().state(),
            "chains": chains,
            "fillings": self._fillings,
            "is_begun": self._is_begun,
            "is_warm": self._is_warm,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up the chains."""
        super().restore(state)
        self._chains = type(self._chains)(**state["chains"])
        self._fillings, self._is_begun = state["fillings"], state["is_begun"]
        self._is_warm = state["is_warm"]
