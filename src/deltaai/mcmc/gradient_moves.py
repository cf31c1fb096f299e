"""Locally informed proposals: Gibbs-with-gradients and its exact counterpart.

A step proposes one change (variable u, new value k) a chain, with probability

    q(u, k | x) ∝ exp( d(x, u, k) / 2 ),   d(x, u, k) ≈ log p(x with x_u = k) - log p(x),

and accepts it by Metropolis and Hastings, with the reverse proposal at the new state. Moves that
raise the score are tried first, without losing the invariance of p.

- ``is_exact=True``: d is the true difference, which a factor graph gives for all changes at once
  (locally balanced proposals: Zanella, *Informed proposals for local MCMC in discrete spaces*,
  2020, with the balancing function √t).
- ``is_exact=False``: d is its first-order expansion from one gradient (Grathwohl, Swersky, Hashemi,
  Duvenaud and Maddison, *Oops I took a gradient*, 2021; :mod:`deltaai.mcmc.taylor_ratios`).
  For models of spins and tables it is the same.

Changes to impossible states are never proposed. Chains stand on possible states from the start,
so all ratios are finite or -inf, never NaN. This file moves one variable a step; it does not
adapt anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import StateError
from deltaai.mcmc.chains import ChainState, Kernel, StepInfo, tempered
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.taylor_ratios import taylor_log_ratios
from deltaai.models import FactorGraph, States
from deltaai.threads import limited_threads

# Changes weighed at once: more would leave the cache.
PIECE_ENTRIES = 2**17
# Sweeps of Gibbs sampling by which random starts must have reached possible states.
MOST_REPAIRS = 100


@dataclass(frozen=True, eq=False)
class InformedState(ChainState):
    """Chains, with the changes that each could make.

    Parameters
    ----------
    log_ratios : change of the log score for every (variable, value), exact or estimated.
    is_kept : whether they still hold at the next step, the model being constant.
    """

    log_ratios: Float[Tensor, "all_states chain"]
    is_kept: bool


class GibbsWithGradientsKernel(Kernel[InformedState]):
    """Metropolis-Hastings with proposals informed by all single-variable changes.

    Parameters
    ----------
    model : the target.
    is_exact : whether proposals rest on true differences or on their first-order expansion.
    """

    def __init__(self, model: FactorGraph, is_exact: bool = True) -> None:
        super().__init__(model)
        self.is_exact = is_exact
        count = int(model.state_offsets[-1])
        variables = torch.arange(model.num_variables, device=model.device)
        self._variable = variables.repeat_interleave(model.num_states)
        entries = torch.arange(count, device=model.device)
        self._value = entries - model.state_offsets[:-1][self._variable]

    @torch.no_grad()
    @limited_threads(1)
    def init(
        self, num_chains: int, generator: torch.Generator, states: States | None = None
    ) -> InformedState:
        """Start chains at given states, which must be possible, or at random ones.

        Random states that are impossible are changed by Gibbs sweeps until none is left.
        """
        columns = self.start_columns(num_chains, generator, states)
        if not self._is_possible(columns):
            if states is not None:
                raise StateError(
                    "a given state has probability zero, so no move from it has a ratio: start "
                    "from possible states, or from random ones by giving none"
                )
            columns = self._repaired(columns, generator)
        return InformedState(columns, self._log_ratios(columns), self.is_constant)

    def _is_possible(self, columns: Tensor) -> bool:
        return bool((self.model.log_score(columns.T) > -torch.inf).all())

    def _repaired(self, columns: Tensor, generator: torch.Generator) -> Tensor:
        gibbs = GibbsKernel(self.model)
        state = ChainState(columns)
        for _ in range(MOST_REPAIRS):
            state, _ = gibbs.step(state, generator)
            if self._is_possible(state.columns):
                return state.columns
        raise StateError(
            f"no possible state was found for all chains in {MOST_REPAIRS} sweeps from random "
            "states: give possible states to start from"
        )

    @torch.no_grad()
    @limited_threads(1)
    def step(
        self, state: InformedState, generator: torch.Generator, beta: float | int = 1.0
    ) -> tuple[InformedState, StepInfo]:
        """Propose one change in every chain, and make it where it is accepted."""
        self.check_step(state, beta)
        if len(self._variable) == 0:
            return state, StepInfo(1.0, 0)
        width = max(PIECE_ENTRIES // len(self._variable), 1)
        is_kept = state.is_kept and self.is_constant
        pieces = (torch.split(whole, width, 1) for whole in (state.columns, state.log_ratios))
        moved = [
            self._move(columns, ratios if is_kept else self._log_ratios(columns), generator, beta)
            for columns, ratios in zip(*pieces, strict=True)
        ]
        columns, ratios, is_accepted = (torch.cat(parts, -1) for parts in zip(*moved, strict=True))
        info = StepInfo(float(is_accepted.double().mean()), state.num_chains)
        return InformedState(columns, ratios, self.is_constant), info

    def _move(
        self, columns: Tensor, here: Tensor, generator: torch.Generator, beta: float | int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Columns and changes after a step of some chains, and whether they moved."""
        chains = torch.arange(columns.shape[1], device=columns.device)
        weights = self._log_weights(columns, here, beta)
        move, log_total = _draw(weights, generator)
        can_move = log_total > -torch.inf
        variable, value = self._variable[move], self._value[move]
        before = columns[variable, chains]

        proposed = columns.clone()
        proposed[variable, chains] = torch.where(can_move, value.to(columns.dtype), before)
        there = self._log_ratios(proposed)
        weights_back = self._log_weights(proposed, there, beta)
        log_total_back = torch.logsumexp(weights_back, 0)
        back = self.model.state_offsets[variable] + before

        if self.is_exact:
            change = here[move, chains]
        else:
            change = self.model.log_ratio(columns.T, variable, value)
        # log p(x') q(x | x') - log p(x) q(x' | x)
        log_acceptance = (
            tempered(change, beta)
            + (weights_back[back, chains] - log_total_back)
            - (weights[move, chains] - log_total)
        )
        uniform = torch.rand(
            len(chains), generator=generator, dtype=torch.float64, device=columns.device
        )
        # A chain that cannot move has -inf - (-inf) above; comparing with NaN says no.
        is_accepted = can_move & (uniform.log() < log_acceptance)
        return (
            torch.where(is_accepted, proposed, columns),
            torch.where(is_accepted, there, here),
            is_accepted,
        )

    def _log_ratios(self, columns: Int[Tensor, "var chain"]) -> Float[Tensor, "all_states chain"]:
        if self.is_exact:
            return self.model.log_ratios(columns.T).T
        return taylor_log_ratios(self.model, columns)

    def _log_weights(
        self,
        columns: Int[Tensor, "var chain"],
        log_ratios: Float[Tensor, "all_states chain"],
        beta: float | int,
    ) -> Float[Tensor, "all_states chain"]:
        """Half the tempered change of every move; -inf for the values that chains have."""
        weights = tempered(log_ratios, beta) / 2
        present = self.model.state_offsets[:-1, None] + columns
        return weights.scatter_(0, present, -torch.inf)


def _draw(
    log_weights: Float[Tensor, "choice chain"], generator: torch.Generator
) -> tuple[Int[Tensor, "chain"], Float[Tensor, "chain"]]:
    """One choice a chain, with probabilities proportional to weights, and the log of their sum.

    Where all weights are zero any choice is returned, and the log of the sum is -inf.
    """
    highest = log_weights.amax(0).clamp_(min=-(2.0**100))  # finite where all are zero
    cumulative = (log_weights - highest).exp_().cumsum(0)
    shape = (1, log_weights.shape[1])
    uniform = torch.rand(
        shape, generator=generator, dtype=log_weights.dtype, device=log_weights.device
    )
    choice = (cumulative <= uniform * cumulative[-1:]).sum(0)
    return choice.clamp_(max=len(log_weights) - 1), highest + cumulative[-1].log()
