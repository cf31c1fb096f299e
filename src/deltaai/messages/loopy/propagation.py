"""Loopy belief propagation: marginals and log Z of any model in a few hundred cheap sweeps.

Factors and variables send each other messages (see :mod:`deltaai.messages.loopy.tables` for the
update) until they stop changing. Then, with log-sums over a variable's or a factor's states,

    b_v(x_v)     ∝ exp total_v(x_v)                                     about p(x_v)
    b_f(x_{S_f}) ∝ exp( table_f(x_{S_f}) + Σ_{v in S_f} incoming_{v→f}(x_v) )
    log Z        = constant + Σ_f log Z_f - Σ_v (d_v - 1) log Z_v       the Bethe estimate

where Z_f and Z_v are the sums of the right-hand sides above and d_v counts the factors, fields
left out, that contain v. On a forest all of it is exact once the messages have converged. With
cycles it is an estimate without an error bar; the weaker the couplings the better. Bethe's log Z
is stationary in the messages, so it settles before the marginals do.

Not done here: an answer that can be trusted by itself. A contradiction between factors is found
only if it shows in the messages, as on forests it always does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ConfigError, ImpossibleEvidenceError
from deltaai.exact import Remainder
from deltaai.messages.loopy.log_odds import LogOddsMessages
from deltaai.messages.loopy.potentials import LARGEST_TABLE, Potentials
from deltaai.messages.loopy.tables import TableMessages
from deltaai.models import Evidence, FactorGraph, on_cpu
from deltaai.progress import Fraction
from deltaai.threads import limited_threads


@dataclass(frozen=True, eq=False)
class FactorBeliefs:
    """Joint beliefs about the scopes of factors of one shape.

    Parameters
    ----------
    ids : place of each factor in the model's list of factors.
    scopes : variables of each factor, by their numbers in the model: those with fewer states come
        first, observed ones and those with one state are left out.
    beliefs : probability of each joint state of each scope.
    """

    ids: Int[Tensor, "factor"]
    scopes: Int[Tensor, "factor arity"]
    beliefs: Float[Tensor, "factor *states"]


@dataclass(frozen=True, eq=False)
class FactorMessages:
    """What factors of one shape tell the variables at one place of their scopes.

    Parameters
    ----------
    ids : place of each factor in the model's list of factors.
    variables : whom each factor tells it, by their numbers in the model.
    log_messages : for each state of that variable, up to a constant a message.
    """

    ids: Int[Tensor, "factor"]
    variables: Int[Tensor, "factor"]
    log_messages: Float[Tensor, "factor state"]


@dataclass(frozen=True, eq=False)
class BeliefPropagation:
    """What the messages say after the last iteration.

    Parameters
    ----------
    model : the model, evidence not yet taken out.
    log_partition : Bethe's estimate of log Z; with evidence, of the states that agree with it.
    is_converged : whether the last change was within the tolerance.
    num_iterations : iterations done.
    residual : largest change of an entry of a message in the last one, in logarithms and before
        damping; infinite if an entry became zero, or if no iteration was done.
    """

    model: FactorGraph
    log_partition: float
    is_converged: bool
    num_iterations: int
    residual: float
    _fixed: dict[int, int]
    _free: tuple[int, ...]
    _potentials: Potentials
    _messages: Float[Tensor, "entry"]
    _totals: Float[Tensor, "pair"]
    _incoming: Float[Tensor, "entry"]

    def marginals(self) -> dict[str, np.ndarray]:
        """Estimated probabilities of every variable's states; observed ones are certain."""
        found: dict[int, np.ndarray] = {}
        for variables, rows in self._potentials.by_size:
            beliefs = torch.softmax(self._totals[rows], 0).T.cpu().numpy()
            for variable, row in zip(variables.tolist(), beliefs, strict=True):
                found[self._free[variable]] = row
        for variable, state in self._fixed.items():
            found[variable] = np.eye(1, self.model.variables[variable].num_states, state)[0]
        return {v.name: found[position] for position, v in enumerate(self.model.variables)}

    def factor_beliefs(self) -> tuple[FactorBeliefs, ...]:
        """Joint beliefs of the factors that tie two unobserved variables or more, by shape."""
        free = torch.tensor(self._free, dtype=torch.long, device=self._totals.device)
        found = []
        for block in self._potentials.blocks:
            joint = block.joint(self._incoming)
            beliefs = torch.softmax(joint.flatten(0, -2), 0).view(joint.shape).movedim(-1, 0)
            found.append(FactorBeliefs(block.ids, free[block.scopes], beliefs))
        return tuple(found)

    def factor_messages(self) -> tuple[FactorMessages, ...]:
        """Messages of the factors that tie two unobserved variables or more, by shape and place."""
        free = torch.tensor(self._free, dtype=torch.long, device=self._totals.device)
        return tuple(
            FactorMessages(block.ids, free[block.scopes[:, place]], values.T)
            for block in self._potentials.blocks
            for place, values in enumerate(block.places(self._messages))
        )


@torch.no_grad()
def loopy_belief_propagation(
    model: FactorGraph | Remainder,
    evidence: Evidence | None = None,
    *,
    num_iterations: int = 200,
    damping: float | int = 0.3,
    tolerance: float | int = 1e-6,
    beta: float | int = 1.0,
    schedule: str = "parallel",
    largest_table: int = LARGEST_TABLE,
    progress: Fraction | None = None,
) -> BeliefPropagation:
    """Estimate marginals and log Z by sum-product messages on the factor graph.

    Parameters
    ----------
    model : the target, or what evidence leaves of it, if that has been found already.
    evidence : names to labels or state indices of the observed variables.
    num_iterations : most iterations to do; in each, every message is updated once.
    damping : share of the old message, in logarithms, that is kept in an update: 0 is the fastest
        where it converges, more makes strong couplings converge.
    tolerance : stop when no message changes by more than this.
    beta : inverse temperature, by which all log-factors are multiplied.
    schedule : ``"parallel"``: all messages are updated from the same old ones.
    largest_table : refuse factors with more joint states than this.
    progress : called with the fraction of the iterations that is done.

    Raises
    ------
    ImpossibleEvidenceError
        If the messages show that no state is possible.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = loopy_belief_propagation(zoo.ising_lattice(side=5, sigma=0.1, seed=0))
    >>> found.is_converged, round(found.log_partition, 2)
    (True, 18.25)
    """
    _check_settings(num_iterations, damping, tolerance, beta, schedule)
    left = model if isinstance(model, Remainder) else Remainder.of(model, evidence)
    potentials = Potentials.build(on_cpu(left.reduced), largest_table)
    if beta != 1:
        potentials = potentials.at(beta)
    with limited_threads(1):
        is_fast = LogOddsMessages.fits(potentials)
        engine = LogOddsMessages(potentials) if is_fast else TableMessages(potentials)
        done, residual = 0, math.inf if potentials.blocks else 0.0
        while done < num_iterations and residual > tolerance:
            residual = engine.step(damping)
            done += 1
            if progress is not None:
                progress(done / num_iterations)
        messages = engine.log_messages()
        totals, incoming = potentials.gather(messages)
        log_partition = bethe_log_partition(potentials, totals, incoming)
    if log_partition == -math.inf:
        raise ImpossibleEvidenceError(
            "the evidence has probability zero under the model"
            if left.observed
            else "the model gives every state probability zero: its factors contradict"
        )
    return BeliefPropagation(
        left.model,
        log_partition,
        residual <= tolerance,
        done,
        residual,
        left.fixed,
        left.free,
        potentials,
        messages,
        totals,
        incoming,
    )


def bethe_log_partition(
    potentials: Potentials, totals: Float[Tensor, "pair"], incoming: Float[Tensor, "entry"]
) -> float:
    """Bethe's estimate of log Z; -inf if some variable or factor has no possible state."""
    log_partition = potentials.constant
    num_variables = sum(len(variables) for variables, _ in potentials.by_size)
    num_factors = torch.zeros(num_variables, dtype=torch.float64, device=totals.device)
    for block in potentials.blocks:
        of_factors = torch.logsumexp(block.joint(incoming).flatten(0, -2), 0)
        log_partition += float(of_factors.sum())
        ends = block.scopes.flatten()
        num_factors.index_add_(0, ends, torch.ones_like(ends, dtype=torch.float64))
    for variables, rows in potentials.by_size:
        of_variables = torch.logsumexp(totals[rows], 0)
        if bool((of_variables == -math.inf).any()):
            return -math.inf
        log_partition -= float(((num_factors[variables] - 1) * of_variables).sum())
    return log_partition


def _check_settings(
    num_iterations: int,
    damping: float | int,
    tolerance: float | int,
    beta: float | int,
    schedule: str,
) -> None:
    if num_iterations < 0:
        raise ConfigError(f"num_iterations must be at least 0, not {num_iterations}")
    if not 0 <= damping < 1:
        raise ConfigError(f"damping must be at least 0 and below 1, not {damping}")
    if not tolerance >= 0:
        raise ConfigError(f"tolerance must be at least 0, not {tolerance}")
    if not 0 < beta < math.inf:
        raise ConfigError(f"beta must be a finite number above 0, not {beta}")
    if schedule != "parallel":
        raise ConfigError(f"schedule must be 'parallel', the only one there is, not {schedule!r}")
