"""The normaliser of a truncated normal distribution, with two derivatives, however far out.

With mean m, scale s and support from low to high, the density is anchored at its mode c, the point
of the support nearest to m, so that no exponent is above zero:

    kernel(x) = -(x - c)(x + c - 2m) / (2s²),   normaliser(m, s) = log ∫ exp(kernel(x)) dx

In standard deviations, seen from the end nearer to m, the support reaches from ``near`` (negative
if m is inside) to ``near + width``. With n = exp(-near²/2) inside and 1 outside, R the Mills ratio,
E the density at the far end relative to that at the near one, and a = max(near, 0):

    mass   = sqrt(2π) [inside] ± n R(|near|) - n E R(near + width)
    first  = n (1 - E) / mass - a                      mean distance from c
    second = 1 + near first - width n E / mass         mean of -2 kernel

The derivatives of the normaliser are mean derivatives of the kernel, so those two are its slopes,
and the slopes of those are covariances. The formulas hold until they lose digits: slopes for a
mean 1000 deviations outside, covariances far sooner. What they cannot do is integrated by
Gauss-Legendre nodes laid over the part of the support that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from deltaai.conditionals.heads.mills import mills_ratio

ENDLESS = 1e30  # deviations to an end that is not there; its square is finite
_STEEP = 1000.0  # deviations outside, from which slopes are integrated
_CURVED = 20.0  # the same of covariances
_NARROW = 0.5  # deviations of width, up to which covariances are integrated
_NODES = 32
_INTEGRATED_AT_ONCE = 1 << 12  # elements
_AT_ONCE = 1 << 16
_BEYOND = 80.0  # what is integrated ends where the density is exp(-40) of the mode's


@dataclass(frozen=True, eq=False)
class Reach:
    """The support in standard deviations, seen from the end nearer to the mean; double precision.

    Parameters
    ----------
    near : from the mean to the near end; negative if the mean is inside.
    width : from one end to the other.
    sign : one where the near end is the low one, else minus one.
    inverse_scale : deviations per unit.
    """

    near: Float[Tensor, "..."]
    width: Float[Tensor, "..."]
    sign: Float[Tensor, "..."]
    inverse_scale: Float[Tensor, "..."]

    @classmethod
    def of(cls, location: Tensor, log_scale: Tensor, low: float, high: float) -> Reach:
        """Measure a support, one end of which is finite at least."""
        inverse = (-log_scale).exp().double()
        if math.isfinite(low) and math.isfinite(high):
            offset = location.double() - (low + high) / 2
            half = (high - low) / 2
            sign = torch.copysign(torch.ones_like(offset), -offset)
            return cls((offset.abs() - half) * inverse, 2 * half * inverse, sign, inverse)
        distance = low - location.double() if math.isfinite(low) else location.double() - high
        sign = torch.full_like(inverse, 1.0 if math.isfinite(low) else -1.0)
        return cls(distance * inverse, torch.full_like(inverse, ENDLESS), sign, inverse)

    def where(self, chosen: Tensor) -> Reach:
        """Some elements alone."""
        parts = (self.near, self.width, self.sign, self.inverse_scale)
        return Reach(*(part[chosen] for part in parts))

    @property
    def outside(self) -> Float[Tensor, "..."]:
        """Deviations of the mean outside the support."""
        return self.near.clamp(min=0)

    @property
    def is_inside(self) -> Float[Tensor, "..."]:
        """One where the mean is inside or on an end, as gradients of ``clamp`` have it."""
        return (self.near <= 0).double()

    def end_densities(self) -> tuple[Tensor, Tensor, Tensor]:
        """Density relative to the mode's: near end; far to near end; one minus that."""
        inside = self.near.clamp(max=0)
        at_near = inside.square().mul_(-0.5).exp_()
        lost = (2 * self.near + self.width).mul_(self.width).mul_(-0.5).expm1_().neg_()
        return at_near, 1 - lost, lost


def log_normaliser(
    location: Float[Tensor, "..."], log_scale: Float[Tensor, "..."], low: float, high: float
) -> Float[Tensor, "..."]:
    """Log-integral of the kernel over the support, differentiable twice."""
    found: Tensor = _Normaliser.apply(location, log_scale, low, high)  # type: ignore[no-untyped-call]
    return found


def in_pieces(
    function: Callable[..., tuple[Tensor, ...]], *given: Float[Tensor, "*shape"]
) -> tuple[Float[Tensor, "*shape"], ...]:
    """Apply an elementwise function to so many elements at once that a processor caches them.

    Between large tensors and memory fresh from the system it would take up to four times as long.
    """
    number = given[0].numel()
    if number <= _AT_ONCE or given[0].device.type != "cpu":
        return function(*given)
    pieces = zip(*(torch.split(part.reshape(-1), _AT_ONCE) for part in given), strict=True)
    found = zip(*(function(*piece) for piece in pieces), strict=True)
    return tuple(torch.cat(parts).view(given[0].shape) for parts in found)


def mass_and_means(reach: Reach) -> tuple[Tensor, Tensor, Tensor]:
    """Mass in units of the scale, mean distance from the mode, and mean of -2 kernel."""
    at_near, far_to_near, lost = reach.end_densities()
    is_inside = reach.is_inside
    at_far = at_near * far_to_near
    # plus outside, minus inside, where the whole mass is taken first
    mass = (at_near - 2 * at_near * is_inside).mul_(mills_ratio(reach.near.abs()))
    mass.add_(is_inside, alpha=math.sqrt(2 * math.pi))
    mass.addcmul_(at_far, mills_ratio(reach.near + reach.width), value=-1)
    first = at_near.mul_(lost).div_(mass).sub_(reach.outside)
    second = torch.addcmul(1 - at_far.mul_(reach.width).div_(mass), reach.near, first)
    if reach.near.numel() and bool(reach.near.max() > _STEEP):
        is_steep = reach.near > _STEEP
        steep = reach.where(is_steep)
        moments = _integrated(steep)
        mass[is_steep], first[is_steep] = moments[0], moments[1]
        second[is_steep] = moments[2] + 2 * steep.near * moments[1]
    return mass, first, second


class _Normaliser(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        location: Tensor,
        log_scale: Tensor,
        low: float,
        high: float,
    ) -> Tensor:
        def evaluated(*given: Tensor) -> tuple[Tensor, ...]:
            reach = Reach.of(given[0], given[1], low, high)
            mass, first, second = mass_and_means(reach)
            by_location = first.mul_(reach.inverse_scale).mul_(reach.sign)
            found = (mass, by_location, second)
            return tuple(part.to(location.dtype) for part in found)

        mass, *slopes = in_pieces(evaluated, location, log_scale)
        ctx.support = (low, high)
        ctx.save_for_backward(location, log_scale, *slopes)
        return mass.log_().add_(log_scale)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        location, log_scale, *slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody differentiates the slopes
            slopes = _Slopes.apply(location, log_scale, *slopes, *ctx.support)  # type: ignore[no-untyped-call]
        return above[0] * slopes[0], above[0] * slopes[1], None, None


class _Slopes(torch.autograd.Function):
    """The two slopes of the normaliser, which are computed already, and their own."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        location: Tensor,
        log_scale: Tensor,
        by_location: Tensor,
        by_log_scale: Tensor,
        low: float,
        high: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.support = (low, high)
        ctx.save_for_backward(location, log_scale)
        return by_location.clone(), by_log_scale.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        location, log_scale = ctx.saved_tensors

        def evaluated(*given: Tensor) -> tuple[Tensor, ...]:
            found = _curvatures(Reach.of(given[0], given[1], *ctx.support))
            return tuple(part.to(location.dtype) for part in found)

        twice, mixed, scales = in_pieces(evaluated, location, log_scale)
        along = above[0] * twice + above[1] * mixed
        across = above[0] * mixed + above[1] * scales
        return along, across, None, None, None, None


def _curvatures(reach: Reach) -> tuple[Tensor, Tensor, Tensor]:
    """Second derivatives of the normaliser: by location, by both, by log-scale."""
    _, one, two, three, four = _moments(reach)
    slope = 2 * reach.outside  # -2 kernel = d² + slope d at distance d from the mode
    kernel = two + slope * one
    spread = two - one.square()
    mixed = three + slope * two - one * kernel - 2 * one
    scales = four + 2 * slope * three + slope.square() * two - kernel.square() - 2 * kernel
    step = reach.inverse_scale
    return (
        (spread - reach.is_inside) * step.square(),  # inside, the mode is the mean
        mixed * step * reach.sign,
        scales,
    )


def _moments(reach: Reach) -> tuple[Tensor, ...]:
    """Mass, and mean powers of the distance from the mode up to the fourth."""
    mass, one, _ = mass_and_means(reach)
    at_near, far_to_near, _ = reach.end_densities()
    near, outside, width = reach.near, reach.outside, reach.width
    end, far = at_near / mass, at_near * far_to_near / mass
    start = near - outside  # distance of the near end from the mode
    stop = start + width
    powers = [torch.ones_like(one), one]
    for power in (1, 2, 3):  # by parts
        edges = start**power * end - stop**power * far
        powers.append(power * powers[power - 1] - outside * powers[power] + edges)
    is_hard = (near > _CURVED) | (width < _NARROW)
    if bool(is_hard.any()):
        integrated = _integrated(reach.where(is_hard))
        for known, found in zip(powers[1:], integrated[1:], strict=True):
            known[is_hard] = found
    return mass, *powers[1:]


def _integrated(reach: Reach) -> tuple[Tensor, ...]:
    """Mass, and mean powers of the distance from the mode up to the fourth, by quadrature."""
    outside = reach.outside
    start = (reach.near - outside).clamp(min=-math.sqrt(_BEYOND))
    far_end = reach.near - outside + reach.width
    stop = far_end.minimum(_BEYOND / (outside + (outside.square() + _BEYOND).sqrt()))
    nodes, weights = _nodes(outside.device)
    found = []
    parts = (torch.split(part, _INTEGRATED_AT_ONCE) for part in (start, stop - start, outside))
    for begin, length, slope in zip(*parts, strict=True):
        distance = torch.addcmul(begin, nodes, length)
        density = (distance * -(0.5 * distance + slope)).exp_().mul_(weights)
        total = density.sum(0)
        means = [density.mul_(distance).sum(0) / total for _ in range(4)]
        found.append(torch.stack((total * length, *means)))
    return torch.cat(found, 1).unbind()


@cache
def _nodes(device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes between zero and one, and their weights, as columns."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (
        torch.from_numpy((nodes[:, None] + 1) / 2).to(device),
        torch.from_numpy(weights[:, None] / 2).to(device),
    )
