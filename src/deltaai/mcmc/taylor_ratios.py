"""Changes of the log score by a first-order expansion, as Gibbs-with-gradients estimates them.

With a score f that extends to relaxed states, and states encoded as vectors e(x_u),

    f(x with x_u = k) - f(x)  ≈  ∇_{e(x_u)} f(x) · (e(k) - e(x_u))

for all u and k from one gradient. For spin couplings and tables the natural extension is
multilinear (products of spins; tables summed over one-hot inputs). It is linear in each variable,
so the expansion is exact for a change of one variable, and the slices of the factors are used as
they are. Only neural factors make a difference: there the network itself is differentiated, at its
encoded inputs.

This file estimates and proposes nothing: see :mod:`deltaai.mcmc.gradient_moves`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models import (
    ClampedGroup,
    Columns,
    FactorGraph,
    FactorGroup,
    NeuralGroup,
    network_inputs,
)


def taylor_log_ratios(model: FactorGraph, columns: Columns) -> Float[Tensor, "all_states chain"]:
    """Estimated change of the log score for every variable and value; zero at the present value.

    Rows are as in ``model.state_offsets``.
    """
    total_states = int(model.state_offsets[-1])
    shape = (total_states, columns.shape[1])
    ratios = torch.zeros(shape, dtype=model.dtype, device=model.device)
    for group in model.groups:
        estimates = _taylor_slices(group, columns)
        for place, size in enumerate(group.sizes):
            if estimates is None:
                slices = group.log_slices(columns, place)
                present = columns.index_select(0, group.scopes[:, place]).long()[:, None]
                slices = slices - slices.gather(1, present)
            else:
                slices = estimates[place]
            first = model.state_offsets[group.scopes[:, place]]
            rows = first[:, None] + torch.arange(size, device=model.device)
            ratios.index_add_(0, rows.flatten(), slices.flatten(0, 1))
    return ratios


def _taylor_slices(
    group: FactorGroup, columns: Columns
) -> list[Float[Tensor, "factor state chain"]] | None:
    """Estimated change of each factor for every value at each place, or None if it is exact."""
    if isinstance(group, NeuralGroup):
        values = group.scope_values(columns)
        return _network_slices(group, values.long())
    if isinstance(group, ClampedGroup) and isinstance(group.base, NeuralGroup):
        free = group.scope_values(columns).long()
        shape = (group.base.arity, group.num_factors, columns.shape[1])
        values = torch.empty(shape, dtype=torch.long, device=columns.device)
        values[list(group.fixed)] = group.held.T[:, :, None]
        values[list(group.free)] = free
        slices = _network_slices(group.base, values)
        return [slices[place] for place in group.free]
    return None


def _network_slices(
    group: NeuralGroup, values: Int[Tensor, "arity factor chain"]
) -> list[Float[Tensor, "factor state chain"]]:
    features = network_inputs(values, group.sizes, group.dtype).requires_grad_()
    with torch.enable_grad():
        total = group.log_values_encoded(group.network_of, features).sum()
        (gradient,) = torch.autograd.grad(total, features)
    slices, column = [], 0
    for value, size in zip(values, group.sizes, strict=True):
        # Two states are encoded as -1 and +1, other numbers of states as one-hot vectors.
        if size == 2:
            slope = gradient[..., column]
            by_state = torch.stack((-slope, slope), 1)
            column += 1
        else:
            by_state = gradient[..., column : column + size].movedim(-1, 1)
            column += size
        slices.append(by_state - by_state.gather(1, value[:, None]))
    return slices
