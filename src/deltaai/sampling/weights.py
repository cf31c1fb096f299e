"""Importance estimates of log Z by q itself."""

from __future__ import annotations

import torch

from deltaai.conditionals import Proposal
from deltaai.models import FactorGraph
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.sampling.policies import ON_POLICY


def estimate_partition(
    proposal: Proposal,
    schedule: Schedule,
    scorer: FactorGraph,
    num_samples: int,
    generator: torch.Generator | None,
) -> ImportanceEstimate:
    """Draw about so many states in the schedule's orders and weigh them.

    Parameters
    ----------
    proposal : q.
    schedule : of one order or several, which get equally many states.
    scorer : the target in the precision its scores need.
    """
    each = max(num_samples // schedule.num_dags, 1)
    columns, log_q = sample_ancestrally(
        proposal, schedule, each, policy=ON_POLICY, generator=generator
    )
    with torch.no_grad():
        log_p = scorer.log_score(columns.flatten(1).T)
    return estimate_from_log_weights(log_p - log_q.flatten().double())
