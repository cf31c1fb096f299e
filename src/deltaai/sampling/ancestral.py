"""Ancestral sampling by levels, in one order or in several at once, with or without evidence.

Variables whose parents are all set can be set together. A
:class:`~deltaai.sampling.levels.Schedule` lists what is due at each such step; a step is then a few
batched operations, whatever the number of variables and orders.

One order serves all evidence: observed variables keep their values, the others are drawn from
conditionals that see what ``known`` says: what comes before them, and the evidence among what comes
after if q was trained for that (see :mod:`deltaai.conditionals.evidence`). A thousand rows of
evidence are a thousand columns of one batch. Importance weights are then

    w = p~(x) / Π_{v unobserved} q(x_v | known).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Num
from torch import Tensor

from deltaai.conditionals import Context, Proposal
from deltaai.sampling.compiled_ancestral import compiled_pass, sample_in_one_pass
from deltaai.sampling.levels import Due, Schedule
from deltaai.sampling.partial_states import PartialStates
from deltaai.sampling.paths import Given
from deltaai.sampling.policies import Choose, Policy
from deltaai.watch import look


def sample_ancestrally(
    proposal: Proposal,
    schedule: Schedule,
    num_samples: int,
    *,
    policy: Policy,
    generator: torch.Generator | None = None,
    given: Given | None = None,
    context: Context | None = None,
    is_evaluated: bool = True,
) -> tuple[Num[Tensor, "var dag sample"], Float[Tensor, "dag sample"]]:
    """Draw samples in each order; also return log q of what was drawn.

    Parameters
    ----------
    proposal : q.
    schedule : of the orders.
    num_samples : samples of each order.
    policy : how to draw; log q is that of q itself.
    given : evidence, and what each conditional sees, if the schedule is for that; the columns of
        the first order come first.
    context : what is given with each column, as every conditional sees it.
    is_evaluated : whether log q is wanted; zeros are returned if it is not.
    """
    stacked = compiled_pass(proposal, schedule, num_samples, policy) if given is None else None
    if stacked is not None:
        drawn = stacked, schedule, num_samples, policy, generator, context
        return sample_in_one_pass(proposal, *drawn)
    shape = (schedule.num_dags, num_samples)
    log_q = torch.zeros(shape, dtype=proposal.dtype, device=proposal.device)
    choose = policy.prepare(shape, generator, proposal.device)
    with torch.no_grad():
        partial = PartialStates(proposal, schedule, num_samples, given, context)
        if is_evaluated:
            for due, log_prob in _filled(partial, schedule, choose):
                log_q.index_add_(0, due.dags, log_prob)
        else:
            for due in _in_turn(schedule):
                partial.put(due, choose)
    return partial.states.view(proposal.layout.num_variables, *shape), log_q


def sample_with_conditionals(
    proposal: Proposal,
    schedule: Schedule,
    num_samples: int,
    *,
    policy: Policy,
    generator: torch.Generator | None = None,
    given: Given | None = None,
) -> tuple[Num[Tensor, "var dag sample"], Float[Tensor, "var dag sample"]]:
    """Draw the same samples; also return log q of each variable, zero where it is observed."""
    shape = (proposal.layout.num_variables, schedule.num_dags, num_samples)
    choose = policy.prepare(shape[1:], generator, proposal.device)
    with torch.no_grad():
        partial = PartialStates(proposal, schedule, num_samples, given)
        log_q = torch.zeros(partial.states.shape, dtype=proposal.dtype, device=proposal.device)
        for due, log_prob in _filled(partial, schedule, choose):
            log_q.index_copy_(0, due.cells, log_prob)
    return partial.states.view(shape), log_q.view(shape)


def _filled(
    partial: PartialStates, schedule: Schedule, choose: Choose
) -> Iterator[tuple[Due, Float[Tensor, "pair sample"]]]:
    """Fill states in, level by level: what was due, and its log q, zero where it is observed."""
    for due in _in_turn(schedule):
        log_prob, is_given = partial.fill(due, choose)
        yield due, log_prob if is_given is None else log_prob.masked_fill(is_given, 0)


def _in_turn(schedule: Schedule) -> Iterator[Due]:
    """What is due, level by level."""
    for level in schedule.levels:
        look()
        yield from level
