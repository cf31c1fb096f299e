"""Models whose factors are tiny random networks, as in the paper's synthetic experiments.

Each factor takes four binary variables as spins s = 2x - 1 and is

    log φ(s) = w₂ · tanh(W₁ s + b₁) + b₂

with ten hidden units. All weights and biases are drawn from N(0, σ²). The paper (appendix
"Synthetic experiments") gives the sizes and the distribution; it does not name the activation,
and tanh is our choice. The networks are constants, not parameters: nothing here is trainable.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.neural_group import NeuralGroup
from deltaai.models.variable import Variable
from deltaai.models.zoo.arguments import MOST_SIDE, checked_count, checked_scale
from deltaai.models.zoo.layouts import consecutive, plaquettes, row_variables, square_variables
from deltaai.randomness import generator_of

ARITY = 4
NUM_HIDDEN = 10


def factor_ladder(num_variables: int, sigma: float, seed: int) -> FactorGraph:
    """Row of binary variables with one network over each four neighbours i, ..., i + 3.

    Parameters
    ----------
    num_variables : length of the row, at least 4.
    sigma : standard deviation of all weights and biases.
    seed : the weights and biases.

    Examples
    --------
    >>> factor_ladder(num_variables=8, sigma=0.5, seed=0)
    FactorGraph(8 variables, 5 factors)
    """
    num_variables = checked_count(
        "num_variables", num_variables, least=ARITY, why="a factor takes four variables"
    )
    scopes = consecutive(num_variables, ARITY)
    return _random_networks(row_variables(num_variables), scopes, sigma, seed)


def factor_lattice(side: int, sigma: float, seed: int) -> FactorGraph:
    """Square of binary variables with one network over each 2 x 2 block.

    Parameters
    ----------
    side : variables along a side, at least 2.
    sigma : standard deviation of all weights and biases.
    seed : the weights and biases.

    Examples
    --------
    >>> factor_lattice(side=4, sigma=0.5, seed=0)
    FactorGraph(16 variables, 9 factors)
    """
    side = checked_count("side", side, least=2, why="a factor takes a 2 x 2 block", most=MOST_SIDE)
    return _random_networks(square_variables(side), plaquettes(side), sigma, seed)


def _random_networks(
    variables: Sequence[Variable], scopes: Int[Tensor, "factor 4"], sigma: float, seed: int
) -> FactorGraph:
    sigma, generator = checked_scale("sigma", sigma), generator_of(seed)
    # A module without storage: it gives the shapes of a network and draws no random numbers.
    skeleton = nn.Sequential(
        nn.Linear(ARITY, NUM_HIDDEN, device="meta", dtype=torch.float64),
        nn.Tanh(),
        nn.Linear(NUM_HIDDEN, 1, device="meta", dtype=torch.float64),
    ).eval()
    skeleton.requires_grad_(False)
    count = len(scopes)
    stacked = {
        name: sigma
        * torch.randn(count, *value.shape, generator=generator, dtype=torch.float64, device="cpu")
        for name, value in skeleton.state_dict().items()
    }
    numbers = torch.arange(count, device="cpu")
    group = NeuralGroup(numbers, scopes, (2,) * ARITY, numbers, skeleton, stacked)
    return FactorGraph.from_groups(variables, [group])
