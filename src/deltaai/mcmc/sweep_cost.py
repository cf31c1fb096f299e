"""What cooling chains costs, by sweeps or Hamiltonian steps, as far as operations can be counted.

Costs are counts times typical nanoseconds of a core, right within a factor of two or three. They
are not measured, so that what is planned by them is the same on every machine, and the same seed
gives the same answer. For limits of time there is the clock (:mod:`deltaai.budget`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltaai.errors import ConfigError
from deltaai.mcmc.chains import Kernel
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.hamiltonian import HamiltonianKernel
from deltaai.mcmc.local_scores import incidents

# Nanoseconds: of a step of Python with a few small operations; of a table's entry at a new
# temperature; of a variable drawn from a table, and for each of its states, in one chain; of an
# entry looked up; of a factor in a log score.
_STEP, _ENTRY, _DRAW, _STATE, _LOOKUP, _FACTOR = 8e3, 15.0, 1.5, 1.25, 10.0, 2.5
# Steps for each block of variables with tables and without, and for each of its kinds of factors.
_TABLE_STEPS, _BLOCK_STEPS, _PART_STEPS = 35, 20, 12
_MANY_CHAINS, _MOST_AT_ONE = 400, 10
# Nanoseconds of a gradient: in any case and for each group of factors; in one chain for each
# factor, variable, and number that factors hold.
_GRADIENT, _GROUP, _SLOPE, _VARIABLE, _NUMBER = 4e5, 1.5e5, 50.0, 15.0, 1.2


@dataclass(frozen=True)
class SweepCost:
    """Nanoseconds: for each sweep and each new temperature, in any case and for each chain."""

    sweep: float
    sweep_per_chain: float
    temperature: float
    temperature_per_chain: float

    @classmethod
    def of(cls, kernel: Kernel[Any]) -> SweepCost:
        """Count a kernel's operations."""
        if isinstance(kernel, HamiltonianKernel):
            return cls._of_gradients(kernel)
        if not isinstance(kernel, GibbsKernel):
            raise ConfigError(f"what steps of a {type(kernel).__name__} cost is not known")
        model = kernel.model
        if kernel.fields is not None:
            count = len(kernel.fields.bias)
            each = count * (25.0 + 0.06 * count)
            return cls(_STEP * model.num_variables, each, 10 * _STEP, 0.1 * count**2)
        steps = entries = 0
        each = 0.0
        for block in kernel.blocks:
            if block.table is not None:
                steps += _TABLE_STEPS
                entries += kernel.num_entries(block)
                num_states = int(model.num_states[block.members[0]])
                each += (_DRAW + _STATE * num_states) * len(block.members)
                continue
            parts = incidents(model, block.members)
            steps += _BLOCK_STEPS + _PART_STEPS * len(parts)
            sizes = (model.groups[part.group].sizes[part.place] for part in parts)
            looked_up = sum(len(p.factors) * size for p, size in zip(parts, sizes, strict=True))
            each += _LOOKUP * looked_up
        num_factors = sum(group.num_factors for group in model.groups)
        return cls(_STEP * steps, each, 10 * _STEP + _ENTRY * entries, _FACTOR * num_factors)

    @classmethod
    def _of_gradients(cls, kernel: HamiltonianKernel) -> SweepCost:
        """A leapfrog step is one gradient; functions count as if they were small."""
        model, fixed = kernel.model, _GRADIENT
        each = _VARIABLE * model.num_variables * kernel.reference.num_components
        for group in model.groups:
            fixed += _GROUP
            each += _SLOPE * group.num_factors
            if not group.has_tables:
                floating = (value for value in group.tensors() if value.is_floating_point())
                each += _NUMBER * sum(value.numel() for value in floating)
        steps = (kernel.num_leapfrog + 1) / 2
        return cls(steps * fixed, steps * each, 0.0, 0.0)

    def per_sweep(self, num_chains: int, at_one: int) -> float:
        """A sweep, with its part of the temperature it is at."""
        fixed = self.sweep + self.temperature / at_one
        return fixed + num_chains * (self.sweep_per_chain + self.temperature_per_chain / at_one)

    @property
    def sweeps_at_one(self) -> int:
        """Sweeps at a temperature that take about twice as long as going to the next one.

        Not many, lest the steps between temperatures become too large.
        """
        step = self.temperature + _MANY_CHAINS * self.temperature_per_chain
        sweep = self.sweep + _MANY_CHAINS * self.sweep_per_chain
        return max(1, min(round(2 * step / max(sweep, 1.0)), _MOST_AT_ONE))
