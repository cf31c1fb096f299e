"""Hamiltonian Monte Carlo for real variables, alternating with Gibbs updates of states.

A step gives every real variable a random momentum, follows the motion

    dx_v/dt = s_v m_v,      dm_v/dt = s_v ∂ log π_β(x) / ∂ x_v,      m ~ N(0, 1),

by a random number of leapfrog steps of length ε, and accepts where it leads with probability

    min(1, π_β(x') exp(-|m'|²/2) / (π_β(x) exp(-|m|²/2)))

(Neal, *MCMC using Hamiltonian dynamics*, 2011). With one leapfrog step it is MALA, the Langevin
proposal of length ε²/2 (Rossky, Doll and Friedman, 1978). Walls reflect
(:mod:`deltaai.mcmc.walls`). The target goes from a reference density r to p, π_β ∝ r^(1-β) p~^β
(:mod:`deltaai.mcmc.reference`); at β = 1 nothing is left of r. Variables with states are updated
first, given the real ones (:mod:`deltaai.mcmc.state_updates`).

A leapfrog step is exact for whatever field of forces, so where a score or its gradient is not a
finite number there is no force. What matters is where a step leads: never to a score of -inf, NaN
or +inf from one that is finite. From an impossible start any move is made, until one is possible.

Steps are as long as they are set (:mod:`deltaai.mcmc.tuning`), as by a warm-up
(:mod:`deltaai.mcmc.warm_up`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from deltaai.errors import ConfigError, StateError
from deltaai.mcmc.chains import ChainState, Kernel, StepInfo, tempered
from deltaai.mcmc.reference import Reference
from deltaai.mcmc.state_updates import StateUpdates
from deltaai.mcmc.tuning import Tuning
from deltaai.mcmc.walls import Walls
from deltaai.models import Columns, FactorGraph, States
from deltaai.threads import limited_threads

_STEP_SIZE, _MOST_LEAPFROG = 0.3, 16


@dataclass(frozen=True, eq=False)
class HamiltonianState(ChainState):
    """Chains over real variables, with what is known where they are.

    Parameters
    ----------
    scores : log p~, -inf where it is no finite number.
    slopes : its derivatives by the real variables, zero where they are no finite numbers.
    is_kept : whether these hold at the next step, the model being constant.
    """

    scores: Float64[Tensor, "chain"]
    slopes: Float64[Tensor, "real chain"]
    is_kept: bool


@dataclass(frozen=True, eq=False)
class Proposed:
    """What became of the proposals of a step.

    Parameters
    ----------
    chances : with which each was to be accepted.
    is_accepted : whether it was.
    num_updates : proposals, and updates of variables with states.
    """

    chances: Float64[Tensor, "chain"]
    is_accepted: Bool[Tensor, "chain"]
    num_updates: int


class HamiltonianKernel(Kernel[HamiltonianState]):
    """Hamiltonian Monte Carlo between walls, with Gibbs updates of variables with states.

    Parameters
    ----------
    model : the target; at least one variable is real.
    step_size : length of a leapfrog step, relative to the scales; one number, or one a chain.
    scales : by how much each real variable moves in a step of length 1, as if its mass were the
        reciprocal square; those of the reference by default.
    num_leapfrog : most leapfrog steps of one proposal; how many is drawn evenly from 1 to this.
    reference : where chains start, and what the target is at beta 0.
    tuning : step lengths and scales at several inverse temperatures, in place of those above.

    Examples
    --------
    >>> from deltaai.mcmc import run_chains
    >>> from deltaai.models import FactorGraph, GaussianFactor, Variable
    >>> model = FactorGraph([Variable("x", support="line")], [GaussianFactor("x", 3.0, 0.25)])
    >>> generator = torch.Generator().manual_seed(0)
    >>> kernel = HamiltonianKernel(model)
    >>> state, _ = run_chains(kernel, kernel.init(1000, generator), 20, generator)
    >>> round(float(state.states.mean()), 1), round(float(state.states.std()), 1)
    (3.0, 0.5)
    """

    takes_real: ClassVar[bool] = True

    def __init__(
        self,
        model: FactorGraph,
        step_size: float | Float[Tensor, "chain"] = _STEP_SIZE,
        scales: Float[Tensor, "real"] | None = None,
        *,
        num_leapfrog: int = _MOST_LEAPFROG,
        reference: Reference | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__(model)
        if model.is_discrete:
            raise ConfigError(
                "HamiltonianKernel is for models with real variables, and here all have states: "
                'take GibbsKernel ("gibbs")'
            )
        if num_leapfrog < 1:
            raise ConfigError(f"at least one leapfrog step is needed, not {num_leapfrog}")
        self.num_leapfrog = num_leapfrog
        self.reference = Reference.of(model) if reference is None else reference
        self.tuning = self._constant(step_size, scales) if tuning is None else tuning
        low, high = (end.to(self.column_dtype) for end in (self.reference.low, self.reference.high))
        self._walls = Walls.of(low, high)
        self._updates: StateUpdates | None = None

    def _constant(self, step_size: float | Tensor, scales: Tensor | None) -> Tuning:
        found = (
            self.reference.width
            if scales is None
            else torch.as_tensor(scales, dtype=torch.float64, device=self.model.device)
        )
        if found.shape != self.reference.low.shape or not bool((found > 0).all()):
            raise ConfigError(
                f"scales are numbers above 0, one for each of {len(self.reference.low)} real "
                "variables"
            )
        lengths = torch.as_tensor(step_size, dtype=torch.float64, device=self.model.device).reshape(
            -1
        )
        if not bool((lengths > 0).all() and lengths.isfinite().all() and len(lengths)):
            raise ConfigError(f"the length of a step must be a number above 0, not {step_size}")
        return Tuning.constant(lengths.to(self.model.device), found.to(self.model.device))

    def tuned(self, tuning: Tuning) -> HamiltonianKernel:
        """The same kernel with other steps."""
        return HamiltonianKernel(
            self.model, num_leapfrog=self.num_leapfrog, reference=self.reference, tuning=tuning
        )

    # -- chains --------------------------------------------------------------------------------

    def init(
        self, num_chains: int, generator: torch.Generator, states: States | None = None
    ) -> HamiltonianState:
        """Start chains at given states, one row a chain, or at draws of the reference."""
        if states is not None:
            return self.at(self.start_columns(num_chains, generator, states))
        if num_chains < 1:
            raise StateError(f"at least one chain is needed, not {num_chains}")
        return self.at(self.reference.draw(num_chains, generator).to(self.column_dtype))

    @limited_threads(1)
    def step(
        self, state: HamiltonianState, generator: torch.Generator, beta: float | int = 1.0
    ) -> tuple[HamiltonianState, StepInfo]:
        """Update states, then move all real variables once, in every chain."""
        self.check_step(state, beta)
        moved, proposed = self.moved(state, generator, float(beta), self.tuning)
        share = float(proposed.is_accepted.double().mean())
        return moved, StepInfo(share, proposed.num_updates)

    def check_step(self, state: ChainState, beta: float | int) -> None:
        """Refuse a state of another model, and what is not on the path from the reference to p."""
        super().check_step(state, beta)
        if beta > 1:
            raise ConfigError(f"beyond the target there is no path: beta is at most 1, not {beta}")
        width = self.tuning.log_step_sizes.shape[1]
        if width not in (1, state.num_chains):
            raise StateError(f"there are {width} lengths of steps and {state.num_chains} chains")

    def log_score(self, state: HamiltonianState) -> Float64[Tensor, "chain"]:
        """Log score of every chain."""
        return self._current(state).scores

    def log_slope(self, state: HamiltonianState) -> Float64[Tensor, "chain"]:
        """Derivative by beta of the log target: log p~ less the log of the reference."""
        return self._current(state).scores - self.reference.log_density(state.columns)

    @property
    def log_partition_at_zero(self) -> float:
        """The reference is a density."""
        return 0.0

    def slopes(self, state: HamiltonianState, beta: float) -> Float64[Tensor, "real chain"]:
        """Derivatives of the log target at beta by the real variables."""
        return beta * state.slopes + (1 - beta) * self.reference.slopes(state.columns)

    # -- a step --------------------------------------------------------------------------------

    def _current(self, state: HamiltonianState) -> HamiltonianState:
        is_current = state.is_kept and self.is_constant
        return state if is_current else self.at(state.columns)

    def at(self, columns: Columns) -> HamiltonianState:
        """Chains at some states, with scores and slopes."""
        with torch.enable_grad():
            states = columns.T.contiguous().requires_grad_(True)
            scores = self.model.log_score(states).double()
            slopes = torch.zeros_like(states)
            if scores.requires_grad:
                found = torch.autograd.grad(scores.sum(), states, allow_unused=True)[0]
                slopes = slopes if found is None else found
        scores, slopes = scores.detach(), slopes[:, self.reference.real].T.double()
        is_finite = scores.isfinite()
        scores = torch.where(is_finite, scores, -torch.inf)
        slopes = torch.where(is_finite & slopes.isfinite().all(0), slopes, 0.0)
        return HamiltonianState(columns, scores, slopes, self.is_constant)

    def _log_target(self, state: HamiltonianState, beta: float) -> Float64[Tensor, "chain"]:
        log_p = tempered(state.scores, beta)
        return (
            log_p if beta == 1 else log_p + (1 - beta) * self.reference.log_density(state.columns)
        )

    def _swept(
        self, state: HamiltonianState, generator: torch.Generator, beta: float
    ) -> tuple[HamiltonianState, int]:
        """The chains after an update of every variable with states, and how many these were."""
        if bool((self.reference.num_states <= 1).all()):
            return self._current(state), 0
        if self._updates is None or not self.is_constant:
            self._updates = StateUpdates.build(self.model)
        columns = state.columns.clone()
        with torch.no_grad():
            self._updates.sweep(columns, beta, generator)
        return self.at(columns), self._updates.num_updates

    def moved(
        self, state: HamiltonianState, generator: torch.Generator, beta: float, tuning: Tuning
    ) -> tuple[HamiltonianState, Proposed]:
        """A step with given lengths, and what became of its proposals."""
        here, num_updates = self._swept(state, generator, beta)
        step_size, scales = tuning.at(beta)
        lengths = (scales[:, None] * step_size).to(self.column_dtype)
        shape = here.slopes.shape
        where = generator.device
        count = int(torch.randint(1, self.num_leapfrog + 1, (), generator=generator, device=where))
        momentum = torch.randn(shape, generator=generator, dtype=torch.float64, device=where)
        momentum = momentum.to(here.columns.device)
        there, ended, is_lost = self._leapfrog(here, momentum, lengths, count, beta)
        log_ratio = self._log_target(there, beta) - self._log_target(here, beta)
        log_ratio = log_ratio + 0.5 * (momentum.square() - ended.square()).sum(0)
        # From a state that is impossible every way is right.
        log_ratio = torch.where(here.scores == -torch.inf, torch.inf, log_ratio)
        log_ratio = torch.where(is_lost | log_ratio.isnan(), -torch.inf, log_ratio)
        chance = torch.rand(shape[1:], generator=generator, dtype=torch.float64, device=where)
        is_accepted = chance.to(log_ratio.device).log() < log_ratio
        found = HamiltonianState(
            torch.where(is_accepted, there.columns, here.columns),
            torch.where(is_accepted, there.scores, here.scores),
            torch.where(is_accepted, there.slopes, here.slopes),
            self.is_constant,
        )
        num_proposed = (num_updates + 1) * state.num_chains
        return found, Proposed(log_ratio.clamp(max=0.0).exp(), is_accepted, num_proposed)

    def _leapfrog(
        self,
        here: HamiltonianState,
        momentum: Float64[Tensor, "real chain"],
        lengths: Tensor,
        count: int,
        beta: float,
    ) -> tuple[HamiltonianState, Float64[Tensor, "real chain"], Bool[Tensor, "chain"]]:
        """Where the motion leads, the momentum there, and which chains were lost to infinity."""
        state, real = here, self.reference.real
        is_lost = torch.zeros_like(here.scores, dtype=torch.bool)
        for _ in range(count):
            momentum = momentum + 0.5 * lengths * self.slopes(state, beta)
            start = state.columns[real]
            position = start + (lengths * momentum).to(start.dtype)
            position, momentum = self._walls.reflected(position, momentum)
            is_lost |= ~(position.isfinite() & momentum.isfinite()).all(0)
            columns = state.columns.clone()
            columns[real] = torch.where(is_lost, start, position)
            momentum = torch.where(is_lost, 0.0, momentum)
            state = self.at(columns)
            momentum = momentum + 0.5 * lengths * self.slopes(state, beta)
        return state, momentum, is_lost


def langevin(model: FactorGraph, step_size: float = _STEP_SIZE) -> HamiltonianKernel:
    """MALA: one leapfrog step a proposal."""
    return HamiltonianKernel(model, step_size, num_leapfrog=1)
