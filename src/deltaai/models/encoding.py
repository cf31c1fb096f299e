"""Values as numbers for a network: -1 or +1 for two states, one-hot for any other number.

A real variable stands as it is; it has no states, so their number is zero.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Num
from torch import Tensor


def num_features(num_states: int) -> int:
    """How many numbers stand for the state of a variable.

    >>> num_features(2), num_features(3), num_features(1), num_features(0)
    (1, 3, 1, 1)
    """
    return 1 if num_states in (0, 2) else num_states


def encode_states(
    values: Num[Tensor, "*shape"], num_states: int, dtype: torch.dtype, dim: int = -2
) -> Float[Tensor, "..."]:
    """Encode states of variables with one number of states; features become a new axis.

    Parameters
    ----------
    dim : where the new axis stands among those of the result; before the batch by default.

    Examples
    --------
    >>> encode_states(torch.tensor([[0, 1]]), 2, torch.float32).tolist()
    [[[-1.0, 1.0]]]
    >>> encode_states(torch.tensor([[0, 2]]), 3, torch.float32).tolist()
    [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]]
    """
    if num_states == 0:
        return values.unsqueeze(dim).to(dtype)
    if num_states == 2:
        if values.is_floating_point():  # perhaps the caller's own tensor
            return values.unsqueeze(dim).to(dtype) * 2 - 1
        return values.unsqueeze(dim).to(dtype).mul_(2).sub_(1)
    apart = values.unsqueeze(dim)
    states = torch.arange(num_states, dtype=values.dtype, device=values.device)
    axes = [1] * apart.ndim
    axes[dim] = num_states
    return (apart == states.view(axes)).to(dtype)
