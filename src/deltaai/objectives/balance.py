"""The balance objectives of GFlowNets, as functions of one thing: the potentials along a path.

A path fills in a sample x step by step. With a flow F for every partial sample, forward
probabilities q (and backward ones P_B, where the order is part of the policy), let

    A_i = log F(x_1..x_i) - Σ_{k<=i} log q(step k) + Σ_{k<=i} log P_B(step k),   i = 0..n

where log F at the end is log R(x). All of A are equal exactly if q samples in proportion to R, and
each objective asks for some of these equalities:

- trajectory balance (key ``tb``): the first and the last;
- detailed balance (key ``db``): neighbours;
- sub-trajectory balance (key ``subtb``): every pair i < j, weighted by λ^(j-i).

How the potentials come about is the business of other files; here are no networks.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Potentials = Float[Tensor, "step batch"]


def path_potentials(
    log_flows: Float[Tensor, "step batch"],
    log_forward: Float[Tensor, "var batch"],
    log_backward: Float[Tensor, "var batch"] | None = None,
) -> Potentials:
    """Log flow at each step, less log q and plus log P_B of the steps so far.

    Sums along paths are in double precision: log n! of the orders of a thousand variables is
    thousands of nats, and potentials are compared to fractions of one.

    >>> log_forward, log_backward = torch.tensor([[-1.0], [-2.0]]), torch.tensor([[0.0], [-0.5]])
    >>> path_potentials(torch.zeros(3, 1), log_forward, log_backward).flatten().tolist()
    [0.0, 1.0, 2.5]
    """
    changes = -log_forward.double()
    if log_backward is not None:
        changes = changes + log_backward.double()
    return log_flows.double() + torch.cat((torch.zeros_like(changes[:1]), changes.cumsum(0)))


def trajectory_balance(potentials: Potentials) -> Float[Tensor, "batch"]:
    """Squared difference of the first and the last potential.

    >>> trajectory_balance(torch.tensor([[1.0], [7.0], [4.0]])).tolist()
    [9.0]
    """
    return (potentials[0] - potentials[-1]).square()


def detailed_balance(potentials: Potentials) -> Float[Tensor, "batch"]:
    """Mean squared difference of neighbouring potentials.

    >>> detailed_balance(torch.tensor([[1.0], [7.0], [4.0]])).tolist()
    [22.5]
    """
    return (potentials[:-1] - potentials[1:]).square().mean(0)


def sub_trajectory_balance(potentials: Potentials, decay: float | int) -> Float[Tensor, "batch"]:
    """Mean squared difference of all pairs i < j with weights λ^(j-i), λ being the decay.

    The sum over pairs is a quadratic form, so one product does for all of them:
    Σ_{i<j} w_ij (A_i - A_j)² = Σ_i A_i (Σ_j w_ij) A_i - Σ_ij A_i w_ij A_j with w symmetric.

    >>> sub_trajectory_balance(torch.tensor([[1.0], [7.0], [4.0]]), 1.0).tolist()
    [18.0]
    """
    places = torch.arange(len(potentials), device=potentials.device)
    gap = (places[:, None] - places).abs().to(potentials.dtype)
    weights = torch.pow(float(decay), gap) * (gap > 0)
    weights = weights / weights.triu().sum()
    centred = potentials - potentials.mean(0)  # squares of large numbers would cancel badly
    own = weights.sum(1)[:, None] * centred
    return (centred * (own - weights @ centred)).sum(0)
