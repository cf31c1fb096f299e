"""Particles that are copied or dropped in proportion to their weights, which become even.

A group of N particles with weights w is replaced by N copies, particle i on average N w_i / Σw
times, and every copy has the mean weight: whatever the weights stood for on average, the copies
stand for. Copies are taken at evenly spaced points of the cumulated weights with one random offset
(systematic resampling), which adds little noise. Groups never mix. Evening out weights that are
even already would only lose particles, so a group is left alone while enough of it is effective.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.randomness import uniform

# Particles of a group are resampled when fewer than this share of them is effective.
_RESAMPLE_BELOW = 0.5


def resampled(
    log_weights: Float64[Tensor, "group particle"], generator: torch.Generator | None
) -> Int[Tensor, "sample"] | None:
    """Particles that survive, if some group is uneven; its weights are evened in place.

    Returns
    -------
    For every place the particle that stands there from now on, groups one after the other.
    """
    groups, particles = log_weights.shape
    weights = log_weights.softmax(1).nan_to_num(1 / particles)  # all dead: stay as they are
    is_uneven = 1 / weights.square().sum(1) < _RESAMPLE_BELOW * particles
    if not bool(is_uneven.any()):
        return None
    numbers = torch.arange(particles, device=log_weights.device)
    offset = uniform((groups, 1), generator, dtype=torch.float64, device=log_weights.device)
    cumulative = weights.cumsum(1)
    points = (numbers + offset) / particles * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, points, right=True).clamp(max=particles - 1)
    chosen = chosen.where(is_uneven[:, None], numbers)
    mean = log_weights.logsumexp(1, keepdim=True) - math.log(particles)
    log_weights.copy_(mean.where(is_uneven[:, None], log_weights))
    first = particles * torch.arange(groups, device=log_weights.device)[:, None]
    return (chosen + first).flatten()
