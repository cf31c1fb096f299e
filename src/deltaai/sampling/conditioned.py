"""Ancestral sampling of the unobserved variables, with evidence that differs between columns.

One order serves all evidence: observed variables keep their states, the others are drawn level by
level from conditionals that see what ``known`` says: their parents, and the evidence among their
descendants if q was trained for that (see :mod:`deltaai.conditionals.evidence`). A thousand rows of
evidence are a thousand columns of one batch. There are two ways:

- :func:`sample_given` draws and returns log q of what was drawn, for importance weights

      w = p~(x) / Π_{v unobserved} q(x_v | known);

- :func:`sample_sequentially` is for a q that does not look ahead: whenever an observed variable is
  passed, particles of a group are weighted by its probability q(x_v | parents), and resampled
  when their weights have become uneven (sequential Monte Carlo along the order). The last weights
  replace q by p~, so both give unbiased estimates of Z given the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from deltaai.conditionals import Known, Observed, Proposal, log_softmax_at
from deltaai.graphs import Dag
from deltaai.sampling.levels import Due, Levels, due_by_level
from deltaai.sampling.partial_states import PartialStates
from deltaai.sampling.policies import ON_POLICY, Choose, Policy

# Particles are resampled when fewer than this share of them is effective.
RESAMPLE_BELOW = 0.5


@dataclass(frozen=True, eq=False)
class GivenSchedule:
    """Levels of an order for sampling with any evidence."""

    levels: Levels

    @classmethod
    def build(cls, proposal: Proposal, dag: Dag) -> GivenSchedule:
        """Work out which variables and factors are due when."""
        return cls(due_by_level(proposal, [dag], only_before=False))


class _Columns:
    """Columns that are being filled in, and the log q of what they hold."""

    def __init__(
        self,
        proposal: Proposal,
        columns: Int[Tensor, "var batch"],
        observed: Observed,
        known: Known,
    ) -> None:
        layout, dtype = proposal.layout, proposal.model.dtype
        self.observed, self.known = observed, known
        states = columns.where(observed, 0).long()
        features = layout.encoding.encode(states, dtype)
        features[:-1] *= observed[layout.encoding.owners]  # the rest is not there yet
        self.partial = PartialStates(proposal, 1, states, features)
        self.log_drawn = torch.zeros(columns.shape[1], dtype=dtype, device="cpu")
        self.log_given = torch.zeros_like(self.log_drawn)

    @property
    def states(self) -> Int[Tensor, "var batch"]:
        """What the columns hold."""
        return self.partial.states

    def fill(self, due: Due, choose: Choose, beta: float | int) -> None:
        """Draw the variables of what is due where they are not observed."""
        is_given = self.observed[due.variables]
        logits = self.partial.logits(due, beta, self.known)
        drawn, _ = choose(logits, due.dags)
        states = self.states[due.variables].where(is_given, drawn)
        log_prob = log_softmax_at(logits, states)
        self.log_drawn += log_prob.masked_fill(is_given, 0).sum(0)
        self.log_given += log_prob.masked_fill(~is_given, 0).sum(0)
        self.partial.write(due, states)

    def keep(self, index: Int[Tensor, "batch"]) -> None:
        """Replace every column by another; evidence must be the same in both."""
        self.partial.keep(index)
        self.log_drawn, self.log_given = self.log_drawn[index], self.log_given[index]


def sample_given(
    proposal: Proposal,
    schedule: GivenSchedule,
    columns: Int[Tensor, "var batch"],
    observed: Observed,
    known: Known,
    *,
    policy: Policy = ON_POLICY,
    beta: float | int = 1.0,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "var batch"], Float[Tensor, "batch"]]:
    """Draw the unobserved variables of every column; also return their log q.

    Parameters
    ----------
    proposal : q.
    schedule : of its order.
    columns : states of the observed variables; what stands elsewhere does not matter.
    observed : which variables are observed in which column.
    known : which inputs each conditional sees.
    policy : how to draw; log q is that of q itself.
    """
    choose = policy.prepare((1, columns.shape[1]), generator)
    with torch.no_grad():
        filled = _Columns(proposal, columns, observed, known)
        for level in schedule.levels:
            for due in level:
                filled.fill(due, choose, beta)
    return filled.states, filled.log_drawn


def sample_sequentially(
    proposal: Proposal,
    schedule: GivenSchedule,
    columns: Int[Tensor, "var batch"],
    observed: Observed,
    known: Known,
    num_groups: int,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "var batch"], Float[Tensor, "batch"], Float[Tensor, "batch"]]:
    """Draw groups of particles, resampling them on the way within their group.

    Parameters
    ----------
    proposal, schedule, columns, observed, known : as in :func:`sample_given`; the columns of a
        group stand side by side and have the same evidence.
    num_groups : number of groups, each with equally many columns.

    Returns
    -------
    States, log q of full states, and log weights so far: a state's importance weight is
    p~(x) / q(x) times that.
    """
    choose = ON_POLICY.prepare((1, columns.shape[1]), generator)
    log_weights = torch.zeros(
        num_groups, columns.shape[1] // num_groups, dtype=torch.float64, device="cpu"
    )
    with torch.no_grad():
        filled = _Columns(proposal, columns, observed, known)
        for level in schedule.levels:
            before = filled.log_given.clone()
            for due in level:
                filled.fill(due, choose, 1.0)
            log_weights += (filled.log_given - before).double().view(log_weights.shape)
            weights = log_weights.softmax(1)
            is_uneven = 1 / weights.square().sum(1) < RESAMPLE_BELOW * weights.shape[1]
            if bool(is_uneven.any()):
                filled.keep(_resampled(weights, is_uneven, generator))
                mean = log_weights.logsumexp(1, keepdim=True) - np.log(weights.shape[1])
                log_weights = torch.where(is_uneven[:, None], mean, log_weights)
    return filled.states, filled.log_drawn + filled.log_given, log_weights.flatten()


def _resampled(
    weights: Float[Tensor, "group particle"],
    is_wanted: Bool[Tensor, "group"],
    generator: torch.Generator | None,
) -> Int[Tensor, "batch"]:
    """Columns that survive, by systematic resampling within the groups that want it."""
    groups, particles = weights.shape
    offset = torch.rand(groups, 1, generator=generator, dtype=weights.dtype, device="cpu")
    points = (torch.arange(particles, device="cpu") + offset) / particles
    cumulative = weights.cumsum(1)
    chosen = torch.searchsorted(cumulative / cumulative[:, -1:], points, right=True)
    chosen = chosen.clamp(max=particles - 1).where(
        is_wanted[:, None], torch.arange(particles, device="cpu")
    )
    return (chosen + particles * torch.arange(groups, device="cpu")[:, None]).flatten()
