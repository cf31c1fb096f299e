"""Ancestral sampling by levels, in one order or in several at once.

Variables whose parents are all set can be set together. A :class:`Schedule` lists, for each such
step, which variables of which order are due and which factors enter their logits; a step is then
a few batched operations, whatever the number of variables and orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.folded import LARGEST_ARITY, fold
from deltaai.conditionals.informed import relative_slices
from deltaai.conditionals.proposal import Proposal, known_under
from deltaai.graphs import Dag
from deltaai.sampling.policies import Policy


@dataclass(frozen=True, eq=False)
class Part:
    """Variables of one bucket that are due at a step: their places there, and their orders."""

    bucket: int
    members: Int[Tensor, "pair"]
    dags: Int[Tensor, "pair"]
    known: Float[Tensor, "pair input"] | None
    terms: tuple[tuple[int, Tensor, Tensor, Tensor], ...]  # term, factors, their dag, their pair


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of ancestral sampling for some orders."""

    steps: tuple[tuple[Part, ...], ...]
    num_dags: int

    @classmethod
    def build(cls, proposal: Proposal, dags: Sequence[Dag], *, masks: bool) -> Schedule:
        """Work out which variables and factors are due when."""
        layout = proposal.layout
        num_variables = layout.num_variables
        depth = np.zeros((num_variables, len(dags)), dtype=np.int64)
        rank = np.zeros((num_variables, len(dags)), dtype=np.int64)
        for number, dag in enumerate(dags):
            rank[list(dag.order), number] = np.arange(num_variables)
            for level, layer in enumerate(dag.levels):
                depth[list(layer), number] = level
        known = known_under(layout, dags, proposal.model.dtype) if masks else None
        bucket_of = layout.bucket_of.numpy()
        due_terms = _due_terms(proposal, rank) if proposal.is_informed else []
        steps = []
        for level in range(int(depth.max(initial=-1)) + 1):
            variables, numbers = np.nonzero(depth == level)
            parts = []
            for bucket in np.unique(bucket_of[variables, 0]).tolist():
                chosen = bucket_of[variables, 0] == bucket
                parts.append(
                    _part(proposal, bucket, variables[chosen], numbers[chosen], known, due_terms)
                )
            steps.append(tuple(parts))
        return cls(tuple(steps), len(dags))


def _due_terms(proposal: Proposal, rank: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each term, pairs (factor of the term, order) in which it enters its variable's logits.

    Factors that can be folded are left out.
    """
    found = []
    for term in proposal.terms.terms:
        if proposal.model.groups[term.group].arity <= LARGEST_ARITY:
            found.append((np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
            continue
        scopes = proposal.model.groups[term.group].scopes[term.factors].cpu().numpy()
        others = np.delete(scopes, term.place, axis=1)
        is_last = (rank[others] < rank[scopes[:, [term.place]]]).all(axis=1)  # (factor, dag)
        factor, dag = np.nonzero(is_last)
        found.append((factor, dag))
    return found


def _part(
    proposal: Proposal,
    bucket: int,
    variables: np.ndarray,
    numbers: np.ndarray,
    known: Tensor | None,
    due_terms: list[tuple[np.ndarray, np.ndarray]],
) -> Part:
    layout = proposal.layout
    members = layout.bucket_of[torch.from_numpy(variables), 1]
    dags = torch.from_numpy(numbers)
    mask = None
    if known is not None:
        seen = layout.buckets[bucket]
        by_variable = known[seen.slots].view(seen.size, seen.num_inputs, known.shape[1])
        mask = by_variable[members, :, dags]
    pair_of = {
        (variable, number): pair
        for pair, (variable, number) in enumerate(
            zip(variables.tolist(), numbers.tolist(), strict=True)
        )
    }
    terms = []
    for position, (factor, dag) in enumerate(due_terms):
        term = proposal.terms.terms[position]
        scopes = proposal.model.groups[term.group].scopes[term.factors, term.place]
        owner = scopes.cpu().numpy()[factor]
        hits = [
            (f, d, pair_of[v, d])
            for f, d, v in zip(factor.tolist(), dag.tolist(), owner.tolist(), strict=True)
            if (v, d) in pair_of
        ]
        if hits:
            columns = torch.tensor(hits, dtype=torch.long).T
            terms.append((position, columns[0], columns[1], columns[2]))
    return Part(bucket, members, dags, mask, tuple(terms))


def sample_ancestrally(
    proposal: Proposal,
    schedule: Schedule,
    num_samples: int,
    *,
    policy: Policy,
    beta: float | int = 1.0,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "var dag sample"], Float[Tensor, "dag sample"]]:
    """Draw samples in each order; also return their log q (of q itself, whatever the policy)."""
    layout, model = proposal.layout, proposal.model
    encoding = layout.encoding
    shape = (schedule.num_dags, num_samples)
    columns = torch.zeros(layout.num_variables, *shape, dtype=torch.long)
    features = torch.zeros(encoding.num_rows + 1, *shape, dtype=model.dtype)
    log_q = torch.zeros(shape, dtype=model.dtype)
    choose = policy.prepare(shape, generator)
    folded = fold(proposal.terms, model.groups, model.dtype) if proposal.is_informed else None
    with torch.no_grad():
        for step in schedule.steps:
            for part in step:
                bucket = layout.buckets[part.bucket]
                rows = bucket.feature_rows[part.members]
                inputs = features[rows, part.dags[:, None, None]]
                logits = proposal.conditionals.logits_at(
                    part.bucket, part.members, inputs, part.known
                )
                if folded is not None:
                    mask = part.known
                    if mask is not None:
                        mask = mask[:, :, None].expand(-1, -1, num_samples)
                    inside = folded[part.bucket].logits(part.members, inputs, mask)
                    logits = logits.add(inside, alpha=beta)
                for position, factors, dags, pairs in part.terms:
                    term = proposal.terms.terms[position]
                    group, chosen = model.groups[term.group], term.factors[factors]
                    values = columns[group.scopes[chosen].T, dags]
                    slices = relative_slices(group, chosen, values, term.place)
                    logits = logits.index_add(0, pairs, slices, alpha=beta)
                variables = bucket.variables[part.members]
                states, log_prob = choose(logits, part.dags)
                columns[variables, part.dags] = states
                log_q.index_add_(0, part.dags, log_prob)
                encoding.write(features, variables, states, part.dags)
    return columns, log_q
