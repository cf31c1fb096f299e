"""Sequential Monte Carlo along an order, for a q that does not look ahead to the evidence.

Whenever an observed variable is passed, particles of a group are weighted by its probability
q(x_v | parents), and resampled when their weights have become uneven. The last weights replace q
by p~, so the mean weight is an unbiased estimate of Z given the evidence.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.models import Columns
from deltaai.resampling import resampled
from deltaai.sampling.levels import Schedule
from deltaai.sampling.partial_states import PartialStates
from deltaai.sampling.paths import Given
from deltaai.sampling.policies import ON_POLICY


def sample_sequentially(
    proposal: Proposal,
    schedule: Schedule,
    given: Given,
    num_groups: int,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Columns, Float[Tensor, "batch"], Float[Tensor, "batch"]]:
    """Draw groups of particles, resampling them on the way within their group.

    Parameters
    ----------
    proposal : q.
    schedule : of one order.
    given : evidence; the columns of a group stand side by side and have the same evidence.
    num_groups : number of groups, each with equally many columns.

    Returns
    -------
    States, log q of full states, and log weights so far: a state's importance weight is
    p~(x) / q(x) times that.
    """
    batch, device = given.columns.shape[1], proposal.device
    choose = ON_POLICY.prepare((1, batch), generator, device)
    log_drawn = torch.zeros(batch, dtype=proposal.dtype, device=device)
    log_given = torch.zeros_like(log_drawn)
    log_weights = torch.zeros(num_groups, batch // num_groups, dtype=torch.float64, device=device)
    with torch.no_grad():
        partial = PartialStates(proposal, schedule, batch, given)
        for level in schedule.levels:
            before = log_given.clone()
            for due in level:
                log_prob, is_given = partial.fill(due, choose)
                assert is_given is not None
                log_drawn += log_prob.masked_fill(is_given, 0).sum(0)
                log_given += log_prob.masked_fill(~is_given, 0).sum(0)
            log_weights += (log_given - before).double().view(log_weights.shape)
            kept = resampled(log_weights, generator)
            if kept is not None:
                partial.keep(kept)
                log_drawn, log_given = log_drawn[kept], log_given[kept]
    return partial.states, log_drawn + log_given, log_weights.flatten()
