"""Importance estimates of log Z by q itself."""

from __future__ import annotations

import torch

from deltaai.conditionals import Proposal
from deltaai.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.sampling.ancestral import sample_ancestrally
from deltaai.sampling.levels import Schedule
from deltaai.sampling.policies import ON_POLICY


def estimate_partition(
    proposal: Proposal,
    schedule: Schedule,
    num_samples: int,
    generator: torch.Generator | None,
) -> ImportanceEstimate:
    """Draw about so many states in the schedule's orders and weigh them.

    Parameters
    ----------
    proposal : q.
    schedule : of one order or several, which get equally many states.
    """
    each = max(num_samples // schedule.num_dags, 1)
    columns, log_q = sample_ancestrally(
        proposal, schedule, each, policy=ON_POLICY, generator=generator
    )
    with torch.no_grad():
        log_p = proposal.scorer.log_score(columns.flatten(1).T)
    return estimate_from_log_weights(log_p - log_q.flatten().double())
