"""The penalty λ Σ |θ|: where it leaves parameters at zero, and steps of Adam that get there.

A penalty with a corner at zero has no gradient there, and following one on either side only brings
parameters near. Its proximal map does what the corner asks for,

    prox_{η λ}(θ) = sign(θ) max(|θ| - η λ, 0),

and a step of size η along the gradient g of everything else, followed by it, stands still exactly
where the whole is smallest:

    g_i = -λ sign(θ_i)  where θ_i is not zero,        |g_i| <= λ  where it is.

After a step of Adam every parameter's threshold is λ times its own rate, so that this stands still
at the same parameters. :mod:`deltaai.learning.likelihood.orthant_wise` is for exact gradients.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.optimizers import Adam


def soft_threshold(
    values: Float[Tensor, "*shape"], threshold: float | Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Move values towards zero by the threshold, and to zero where they are nearer than that.

    >>> soft_threshold(torch.tensor([3.0, -0.5, -2.0], dtype=torch.float64), 1.0).tolist()
    [2.0, 0.0, -1.0]
    """
    moved = (values.abs() - threshold).clamp(min=0)
    return values.sign() * moved + 0.0  # no zero with a sign


def pseudo_gradient(
    values: Float[Tensor, "*shape"], gradient: Float[Tensor, "*shape"], l1: float | int
) -> Float[Tensor, "*shape"]:
    """The smallest slope of a loss and λ Σ |θ| together; zero at a minimum.

    >>> values = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64)
    >>> gradient = torch.tensor([0.25, 0.75, -0.25], dtype=torch.float64)
    >>> pseudo_gradient(values, gradient, 0.5).tolist()
    [0.0, 0.25, 0.25]
    """
    elsewhere = gradient + l1 * values.sign()
    return torch.where(values == 0, soft_threshold(gradient, float(l1)), elsewhere)


def stationarity(parameters: Iterable[Tensor], l1: float | int) -> float:
    """How far the gradients that parameters carry are from those of a minimum, at most."""
    slopes = (
        pseudo_gradient(value.detach(), value.grad, l1)
        for value in parameters
        if value.grad is not None and value.numel()
    )
    return max((float(slope.abs().max()) for slope in slopes), default=0.0)


@torch.no_grad()
def shrink_after_adam(optimizer: Adam, l1: float | int) -> None:
    """Apply the proximal map after a step of Adam, by the rate that each parameter had in it."""
    for group in optimizer.param_groups:
        for value in group["params"]:
            state = optimizer.state.get(value)
            if not state:  # it had no gradient
                continue
            correction = 1 - group["betas"][1] ** float(state["step"])
            spread = (state["exp_avg_sq"] / correction).sqrt()
            value.copy_(soft_threshold(value, l1 * group["lr"] / (spread + group["eps"])))
