"""Markov chains, many at once: what every MCMC kernel offers, and how to run one.

A kernel is a transition T that leaves the target invariant, π T = π. It has two verbs: ``init``
makes a state of many chains, ``step`` moves all of them. A state is a value: a step returns a new
one and leaves the old one as it was, and all randomness comes from the generator, so a run can be
repeated, and taken up again from a state and the state of the generator.

The target is one of a path that ends at p, its place being the inverse temperature β: for variables
with states π_β ∝ p~(x)^β, which begins with uniform states. On a line nothing is uniform, so
kernels for real variables go from a reference density r to p by π_β ∝ r(x)^(1-β) p~(x)^β. What
cools chains need know no more of a path than its slope ∂ log π~_β / ∂β and the normalising constant
of its beginning, which every kernel tells.

States are held as columns, one row a variable and one column a chain, as factor groups take them.
Steps are many short operations and run on one thread; for more cores, run chains in more processes.
This file holds no kernel and no diagnostics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Float64, Int, Num
from torch import Tensor

from deltaai.errors import ConfigError, StateError
from deltaai.models import FactorGraph, States
from deltaai.threads import limited_threads

Watch = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True, eq=False)
class ChainState:
    """Where all chains are.

    Parameters
    ----------
    columns : state of each variable in each chain.
    held : variables that a chain leaves as they are, such as observed ones; only Gibbs sampling
        heeds it.
    """

    columns: Num[Tensor, "var chain"]
    held: Bool[Tensor, "var chain"] | None = field(default=None, kw_only=True)

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return self.columns.shape[1]

    @property
    def states(self) -> Num[Tensor, "chain var"]:
        """One row a chain, as models take states."""
        is_floating = self.columns.is_floating_point()
        return self.columns.T.contiguous() if is_floating else self.columns.T.long()

    def copied(self: StateT, kept: Int[Tensor, "copy"]) -> StateT:
        """The state in which each chain is a copy of a chosen one."""
        # All that is known of chains stands along the last axis of some tensor.
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        copies = {n: v[..., kept] for n, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **copies)


StateT = TypeVar("StateT", bound=ChainState)


@dataclass(frozen=True)
class StepInfo:
    """What a step did.

    Parameters
    ----------
    acceptance : mean share of proposals that were accepted; 1 for Gibbs.
    num_updates : single-variable updates or proposals made, over all chains.
    """

    acceptance: float
    num_updates: int


class Kernel(ABC, Generic[StateT]):
    """A transition of many chains that leaves a model's distribution invariant.

    Parameters
    ----------
    model : the target.
    """

    takes_real: ClassVar[bool] = False  # whether it is for models with real variables

    def __init__(self, model: FactorGraph) -> None:
        if not (self.takes_real or model.is_discrete):
            name = next(variable.name for variable in model.variables if variable.is_real)
            raise ConfigError(
                f"{type(self).__name__} is for models whose variables all have states, and "
                f'{name!r} is real: take HamiltonianKernel ("hmc")'
            )
        self.model = model
        # A batch of no rows tells the integer type in which the model wants its states.
        none = torch.zeros(0, model.num_variables, dtype=torch.long, device=model.device)
        self.column_dtype = model.columns(none).dtype

    @property
    def is_constant(self) -> bool:
        """Whether no learner may change the model, so that what is known of it can be kept."""
        return not any(True for _ in self.model.parameters())

    @abstractmethod
    def init(
        self, num_chains: int, generator: torch.Generator, states: States | None = None
    ) -> StateT:
        """Start chains at given states, one row a chain, or at uniformly random ones."""

    @abstractmethod
    def step(
        self, state: StateT, generator: torch.Generator, beta: float | int = 1.0
    ) -> tuple[StateT, StepInfo]:
        """Move all chains once, with the target at beta on the path that ends at p."""

    def log_score(self, state: StateT) -> Float64[Tensor, "chain"]:
        """Log score of every chain."""
        with torch.no_grad():
            return self.model.log_score(state.states).double()

    def log_slope(self, state: StateT) -> Float64[Tensor, "chain"]:
        """Derivative by beta of the log target at every chain: what cooling adds to weights."""
        return self.log_score(state)

    @property
    def log_partition_at_zero(self) -> float:
        """Log of the integral of the target at beta 0, which ``init`` draws from."""
        return float(self.model.num_states.double().log().sum())

    def start_columns(
        self, num_chains: int, generator: torch.Generator, states: States | None
    ) -> Num[Tensor, "var chain"]:
        """Check what ``init`` was given, or draw every variable uniformly."""
        if num_chains < 1:
            raise StateError(f"at least one chain is needed, not {num_chains}")
        model = self.model
        if states is not None:
            columns = model.columns(states)
            if columns.shape[1] != num_chains:
                raise StateError(
                    f"{num_chains} chains need as many rows of states, not {columns.shape[1]}"
                )
            return columns
        shape = (model.num_variables, num_chains)
        columns = torch.empty(shape, dtype=self.column_dtype, device=model.device)
        for count in torch.unique(model.num_states).tolist():
            rows = (model.num_states == count).nonzero().squeeze(1)
            drawn = torch.empty(len(rows), num_chains, dtype=columns.dtype, device=model.device)
            columns[rows] = drawn.random_(0, count, generator=generator)
        return columns

    def check_step(self, state: ChainState, beta: float | int) -> None:
        """Refuse a state of another model and a temperature that is none."""
        found = (state.columns.shape[0], state.columns.dtype)
        if found != (self.model.num_variables, self.column_dtype):
            raise StateError(
                f"the chains have {found[0]} variables in {found[1]} and the model has "
                f"{self.model.num_variables} in {self.column_dtype}: start them with this kernel's "
                "init"
            )
        if not (math.isfinite(beta) and beta >= 0):
            raise ConfigError(f"beta must be finite and at least 0, not {beta}")


def run_chains(
    kernel: Kernel[StateT],
    state: StateT,
    num_steps: int,
    generator: torch.Generator,
    *,
    betas: Sequence[float | int] | None = None,
    progress: Watch | None = None,
) -> tuple[StateT, StepInfo]:
    """Take several steps; return the last state, the mean acceptance and the sum of updates.

    Parameters
    ----------
    betas : inverse temperature of each step; 1 throughout if none are given.
    progress : called after each step with the steps done and the steps in all.
    """
    if num_steps < 0:
        raise ConfigError(f"the number of steps must be at least 0, not {num_steps}")
    if betas is not None and len(betas) != num_steps:
        raise ConfigError(f"{num_steps} steps need as many betas, not {len(betas)}")
    acceptance, num_updates = 0.0, 0
    with limited_threads(1):
        for step in range(num_steps):
            beta = 1.0 if betas is None else betas[step]
            state, info = kernel.step(state, generator, beta)
            acceptance += info.acceptance
            num_updates += info.num_updates
            if progress is not None:
                progress(step + 1, num_steps)
    return state, StepInfo(acceptance / num_steps if num_steps else 1.0, num_updates)


def tempered(log_values: Float[Tensor, "*shape"], beta: float | int) -> Float[Tensor, "*shape"]:
    """Multiply log-values by beta; what is impossible stays so, at beta 0 too.

    >>> tempered(torch.tensor([2.0, -torch.inf]), 0).tolist()
    [0.0, -inf]
    """
    if beta == 1:
        return log_values
    scaled = log_values * beta
    return scaled.masked_fill_(log_values == -torch.inf, -torch.inf)
