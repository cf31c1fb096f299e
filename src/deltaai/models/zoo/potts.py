"""Potts models: like Ising models, with more than two states and no order among them.

    log score = σ · (2 Σ_{pairs} J_uv [x_u = x_v] + Σ_u b_u(x_u)),    J_uv and b_u(k) = ±1

Each pair counts twice, as in :mod:`deltaai.models.zoo.ising`. The indicator is 0 or 1 where a
product of spins is -1 or 1, so two Potts states have half the contrast of an Ising coupling.
"""

from __future__ import annotations

import torch

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.table_group import TableGroup
from deltaai.models.variable import MOST_STATES
from deltaai.models.zoo.arguments import MOST_SIDE, checked_count, checked_scale, refuse_large
from deltaai.models.zoo.layouts import lattice_pairs, square_variables
from deltaai.randomness import generator_of


def potts_lattice(side: int, states: int, sigma: float, seed: int) -> FactorGraph:
    """Potts model on a square lattice with open borders.

    Parameters
    ----------
    side : variables along a side.
    states : number of states of each variable, at least 2.
    sigma : sharpness; zero is the uniform distribution.
    seed : the signs of couplings and fields.

    Examples
    --------
    >>> model = potts_lattice(side=3, states=4, sigma=0.5, seed=0)
    >>> model, model.variables[0].num_states
    (FactorGraph(9 variables, 21 factors), 4)
    """
    side = checked_count("side", side, least=1, most=MOST_SIDE)
    states = checked_count("states", states, least=2, most=MOST_STATES)
    sigma, generator = checked_scale("sigma", sigma), generator_of(seed)
    pairs, variables = lattice_pairs(side), square_variables(side, states)
    num_pairs, num_variables = len(pairs), len(variables)
    refuse_large(num_pairs * states**2)
    signs = 2.0 * torch.randint(2, (num_pairs,), generator=generator, device="cpu").double() - 1.0
    couplings = (
        2 * sigma * signs[:, None, None] * torch.eye(states, dtype=torch.float64, device="cpu")
    )
    fields = torch.randint(2, (num_variables, states), generator=generator, device="cpu").double()
    numbers = torch.arange(num_pairs + num_variables, device="cpu")
    groups = [
        TableGroup(numbers[:num_pairs], pairs, couplings),
        TableGroup(
            numbers[num_pairs:],
            torch.arange(num_variables, device="cpu")[:, None],
            sigma * (2.0 * fields - 1.0),
        ),
    ]
    return FactorGraph.from_groups(variables, [group for group in groups if group.num_factors])
