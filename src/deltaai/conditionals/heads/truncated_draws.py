"""Exact draws from a truncated normal distribution, by the inverse of its distribution function.

A chance v between zero and one becomes the point where the share v of the mass lies between it and
the near end. With tails Q(x) = ∫_x^∞, seen from the end nearer to the mean:

    Q(z) = (1 - v) Q(near) + v Q(near + width),   1 - Q likewise,   whichever is the smaller

Far outside, where tails underflow, the distance d from the end is found in log space by Newton's
method, from where it would be if the Mills ratio R were constant; the function is convex, so steps
never overshoot:

    near d + d²/2 - log R(near + d) / R(near) = -log(1 - v (1 - Q(near + width) / Q(near)))
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.mills import mills_ratio
from deltaai.conditionals.heads.truncation import Reach, in_pieces

_TAIL = 25.0  # deviations outside, from which draws are made in log space
_STEPS = 3  # of Newton's method; from there each gives three digits or more


def draw_truncated(
    location: Float[Tensor, "*lead batch"],
    log_scale: Float[Tensor, "*lead batch"],
    low: float,
    high: float,
    chance: Float[Tensor, "*lead batch"],
) -> Float[Tensor, "*lead batch"]:
    """Values for chances from zero to one, in double precision; rounding may put one on an end.

    Parameters
    ----------
    location, log_scale : of the normal distribution before it is truncated.
    """

    def drawn(location: Tensor, log_scale: Tensor, chance: Tensor) -> tuple[Tensor]:
        reach = Reach.of(location, log_scale, low, high)
        distance = _by_tails(reach, chance)
        is_tail = reach.near > _TAIL
        if bool(is_tail.any()):
            distance[is_tail] = _by_newton(reach.where(is_tail), chance[is_tail])
        mode = location.double().clamp(low, high)
        return (mode + reach.sign * distance / reach.inverse_scale,)

    return in_pieces(drawn, location, log_scale, chance)[0]


def _by_tails(reach: Reach, chance: Tensor) -> Tensor:
    """Distance of the values from the mode, positive away from the near end."""
    beyond_near = 0.5 * torch.special.erfc(reach.near.abs() / math.sqrt(2))
    above_far = 0.5 * torch.special.erfc((reach.near + reach.width) / math.sqrt(2))
    is_inside = reach.near < 0
    below_near = torch.where(is_inside, beyond_near, 1 - beyond_near)
    above_near = torch.where(is_inside, 1 - beyond_near, beyond_near)
    below = below_near.lerp_(1 - above_far, chance)
    above = above_near.lerp_(above_far, chance)
    is_low = below < above
    deviations = torch.special.ndtri(torch.minimum(below, above))
    return torch.where(is_low, deviations, -deviations) - reach.outside


def _by_newton(reach: Reach, chance: Tensor) -> Tensor:
    """Distance of the values from the near end."""
    _, far_to_near, _ = reach.end_densities()
    near = reach.near
    at_near = mills_ratio(near)
    beyond = far_to_near * mills_ratio(near + reach.width) / at_near
    wanted = -torch.log1p(-chance * (1 - beyond))
    distance = 2 * wanted / (near + (near.square() + 2 * wanted).sqrt())
    for _ in range(_STEPS):
        there = mills_ratio(near + distance)
        error = distance * (near + 0.5 * distance) - (there / at_near).log() - wanted
        distance = (distance - error * there).clamp(min=0)
    return distance.minimum(reach.width)
