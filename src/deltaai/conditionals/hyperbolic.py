"""The hyperbolic tangent of hidden units, in a quarter of the time of torch's own.

    tanh(x) = 2 sigmoid(2 x) - 1

In single precision on a processor torch computes sigmoids many at a time, and tangents one by one.
The result is right to 2e-7, three units in the last place of one.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def tanh(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Tangents of numbers of any precision, on any device."""
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return x.tanh()
    if not (torch.is_grad_enabled() and x.requires_grad):
        return _by_sigmoid(x)
    found: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
    return found


def _by_sigmoid(x: Tensor) -> Tensor:
    return x.mul(2).sigmoid_().mul_(2).sub_(1)


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        found = _by_sigmoid(x)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:  # noqa: ANN401
        (found,) = ctx.saved_tensors
        inner: Tensor = torch.ops.aten.tanh_backward(slopes[0], found)
        return inner
