"""L-BFGS for a smooth loss and a penalty λ Σ |θ|, orthant by orthant (Andrew and Gao, 2007).

Within an orthant the penalty is linear, so that the curvature of the loss is that of the whole.
A step goes along the pseudo-gradient, the smaller of the slopes to either side of a corner,

    ◇_i = g_i + λ sign(θ_i)   where θ_i is not zero,
    ◇_i = sign(g_i) max(|g_i| - λ, 0)   where it is,

multiplied by what L-BFGS knows of the inverse curvature; parts that do not go down are left out. It
stays in the orthant that this leads to: parameters which would change their sign become zero, and
may leave in a later step. With λ = 0 it is L-BFGS with a backtracking search.

Proximal gradient steps would do where parameters hardly depend on each other. Below the critical
temperature all spins go together, and one direction is thousands of times as steep as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.learning.likelihood.proximal import pseudo_gradient
from deltaai.optimizers import Optimizer

_MOST_TRIALS, _LEAST_GAIN = 25, 1e-4
_MOST_KEPT = 20  # steps from which curvature is known


class OrthantWise(Optimizer):
    """Minimises a smooth loss and λ times the sum of the parameters' sizes.

    After a step the parameters carry the gradient of the loss at where they are. A step that finds
    nothing better leaves them as they were.

    Parameters
    ----------
    parameters : what is moved.
    l1 : λ.
    """

    def __init__(self, parameters: Iterable[Tensor], l1: float | int) -> None:
        super().__init__(list(parameters), {"l1": float(l1)})

    @property
    def _values(self) -> list[Tensor]:
        values: list[Tensor] = self.param_groups[0]["params"]
        return values

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """Take a step; ``closure`` sets the gradients of the loss and returns its value."""
        assert closure is not None
        l1, memory = self.param_groups[0]["l1"], self.state[self._values[0]]
        loss = closure()
        theta, slope = self._theta(), self._slope()
        start = float(loss.detach()) + l1 * float(theta.abs().sum())
        uphill = pseudo_gradient(theta, slope, l1)
        steps, bends = memory.get("steps", theta[None][:0]), memory.get("bends", theta[None][:0])
        way = -_unbent(uphill, steps, bends)
        way = torch.where(way * uphill < 0, way, 0.0)
        orthant = torch.where(theta == 0, -uphill.sign(), theta.sign())
        size = 1.0 if len(steps) else 1.0 / max(float(uphill.norm()), 1.0)
        for _ in range(_MOST_TRIALS):
            reached = theta + size * way
            reached = torch.where(reached * orthant > 0, reached, 0.0)
            self._put(reached)
            value = float(closure().detach()) + l1 * float(reached.abs().sum())
            if value <= start + _LEAST_GAIN * float(uphill @ (reached - theta)):
                break
            size /= 2
        else:
            self._put(theta)
            closure()
            return loss
        moved, bent = reached - theta, self._slope() - slope
        if float(moved @ bent) > 1e-10 * float(bent @ bent):
            memory["steps"] = torch.cat((steps, moved[None]))[-_MOST_KEPT:]
            memory["bends"] = torch.cat((bends, bent[None]))[-_MOST_KEPT:]
        return loss

    def _theta(self) -> Float[Tensor, "all"]:
        return torch.cat([value.detach().flatten() for value in self._values])

    def _slope(self) -> Float[Tensor, "all"]:
        return torch.cat(
            [
                torch.zeros_like(v).flatten() if v.grad is None else v.grad.flatten()
                for v in self._values
            ]
        )

    @torch.no_grad()
    def _put(self, wanted: Float[Tensor, "all"]) -> None:
        sizes = [value.numel() for value in self._values]
        for value, new in zip(self._values, torch.split(wanted, sizes), strict=True):
            value.copy_(new.view(value.shape))


def _unbent(
    slope: Float[Tensor, "all"], steps: Float[Tensor, "kept all"], bends: Float[Tensor, "kept all"]
) -> Float[Tensor, "all"]:
    """The slope times the inverse curvature that some steps, and what they bent, tell of."""
    if not len(steps):
        return slope
    rates = 1 / (steps * bends).sum(1)
    shares = []
    for step, bend, rate in zip(steps.flip(0), bends.flip(0), rates.flip(0), strict=True):
        shares.append(rate * (step @ slope))
        slope = slope - shares[-1] * bend
    slope = slope / (rates[-1] * (bends[-1] @ bends[-1]))
    for step, bend, rate in zip(steps, bends, rates, strict=True):
        slope = slope + (shares.pop() - rate * (bend @ slope)) * step
    return slope
