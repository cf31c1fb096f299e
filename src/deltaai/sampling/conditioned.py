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

from deltaai.conditionals.base import Known
from deltaai.conditionals.evidence import Observed
from deltaai.conditionals.folded import LARGEST_ARITY, fold
from deltaai.conditionals.informed import relative_slices
from deltaai.conditionals.proposal import Proposal, log_softmax_at
from deltaai.graphs import Dag
from deltaai.sampling.policies import ON_POLICY, Choose, Policy

# Particles are resampled when fewer than this share of them is effective.
RESAMPLE_BELOW = 0.5


@dataclass(frozen=True, eq=False)
class GivenPart:
    """Variables of one bucket that are due at a level, and the factors that enter their logits."""

    bucket: int
    members: Int[Tensor, "pair"]
    terms: tuple[tuple[int, Tensor, Tensor], ...]  # term, factors of the term, their pair


@dataclass(frozen=True, eq=False)
class GivenSchedule:
    """Levels of an order for sampling with any evidence."""

    levels: tuple[tuple[GivenPart, ...], ...]

    @classmethod
    def build(cls, proposal: Proposal, dag: Dag) -> GivenSchedule:
        """Work out which variables and factors are due when."""
        bucket_of = proposal.layout.bucket_of.numpy()
        owners = []
        for term in proposal.terms.terms if proposal.is_informed else ():
            group = proposal.model.groups[term.group]
            owner = group.scopes[term.factors, term.place].cpu().numpy()
            # None of those that are folded.
            owners.append(owner if group.arity > LARGEST_ARITY else owner[:0])
        levels = []
        for layer in dag.levels:
            variables = np.array(layer)
            parts = []
            for bucket in np.unique(bucket_of[variables, 0]).tolist():
                chosen = variables[bucket_of[variables, 0] == bucket]
                pair_of = np.full(len(bucket_of), -1)
                pair_of[chosen] = np.arange(len(chosen))
                terms = []
                for position, owner in enumerate(owners):
                    factors = np.flatnonzero(pair_of[owner] >= 0)
                    if len(factors):
                        pairs = torch.from_numpy(pair_of[owner[factors]])
                        terms.append((position, torch.from_numpy(factors), pairs))
                members = torch.from_numpy(bucket_of[chosen, 1])
                parts.append(GivenPart(bucket, members, tuple(terms)))
            levels.append(tuple(parts))
        return cls(tuple(levels))


class _Columns:
    """Columns that are being filled in, and the log q of what they hold."""

    def __init__(
        self,
        proposal: Proposal,
        columns: Int[Tensor, "var batch"],
        observed: Observed,
        known: Known,
    ) -> None:
        layout = proposal.layout
        self.proposal, self.observed, self.known = proposal, observed, known
        self.states = columns.where(observed, 0).long()
        self.features = layout.encoding.encode(self.states, proposal.model.dtype)
        self.features[:-1] *= observed[layout.encoding.owners]  # the rest is not there yet
        self.log_drawn = torch.zeros(columns.shape[1], dtype=proposal.model.dtype)
        self.log_given = torch.zeros_like(self.log_drawn)
        self.folded = None
        if proposal.is_informed:
            self.folded = fold(proposal.terms, proposal.model.groups, proposal.model.dtype)

    def fill(self, part: GivenPart, choose: Choose, beta: float | int) -> None:
        """Draw the variables of a part where they are not observed."""
        proposal, layout = self.proposal, self.proposal.layout
        bucket, batch = layout.buckets[part.bucket], self.states.shape[1]
        inputs = self.features[bucket.feature_rows[part.members]]
        seen = None
        if self.known is not None:
            slots = self.known[bucket.slots].view(bucket.size, bucket.num_inputs, batch)
            seen = slots[part.members]
        logits = proposal.conditionals.logits_at(part.bucket, part.members, inputs, seen)
        if self.folded is not None:
            inside = self.folded[part.bucket].logits(part.members, inputs, seen)
            logits = logits.add(inside, alpha=beta)
        for position, factors, pairs in part.terms:
            term = proposal.terms.terms[position]
            group, chosen = proposal.model.groups[term.group], term.factors[factors]
            values = self.states[group.scopes[chosen].T]
            slices = relative_slices(group, chosen, values, term.place)
            if self.known is not None:
                slices = slices * self.known[term.slots[factors]].prod(1)[:, None]
            logits = logits.index_add(0, pairs, slices, alpha=beta)
        variables = bucket.variables[part.members]
        is_given = self.observed[variables]
        drawn, _ = choose(logits, torch.zeros_like(part.members))
        states = self.states[variables].where(is_given, drawn)
        log_prob = log_softmax_at(logits, states)
        self.states[variables] = states
        self.log_drawn += log_prob.masked_fill(is_given, 0).sum(0)
        self.log_given += log_prob.masked_fill(~is_given, 0).sum(0)
        layout.encoding.write(self.features, variables, states)

    def keep(self, index: Int[Tensor, "batch"]) -> None:
        """Replace every column by another; evidence must be the same in both."""
        self.states = self.states[:, index]
        self.features = self.features[:, index]
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
            for part in level:
                filled.fill(part, choose, beta)
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
    log_weights = torch.zeros(num_groups, columns.shape[1] // num_groups, dtype=torch.float64)
    with torch.no_grad():
        filled = _Columns(proposal, columns, observed, known)
        for level in schedule.levels:
            before = filled.log_given.clone()
            for part in level:
                filled.fill(part, choose, 1.0)
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
    offset = torch.rand(groups, 1, generator=generator, dtype=weights.dtype)
    points = (torch.arange(particles) + offset) / particles
    cumulative = weights.cumsum(1)
    chosen = torch.searchsorted(cumulative / cumulative[:, -1:], points, right=True)
    chosen = chosen.clamp(max=particles - 1).where(is_wanted[:, None], torch.arange(particles))
    return (chosen + particles * torch.arange(groups)[:, None]).flatten()
