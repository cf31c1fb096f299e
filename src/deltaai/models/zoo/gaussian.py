"""Gaussian fields on lattices and trees.

    log score = Σ_u (b_u x_u - ½ ridge x_u²) - ½ coupling Σ_{pairs} (x_u - s_uv x_v)²

with b_u ~ N(0, 1) and s_uv = ±1 at random. Every pair is a square and the ridge holds every
variable, so the density integrates whatever the numbers; a large coupling beside a small ridge
makes long correlations. Couplings come first in ``model.factors``, then fields.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ModelError, shown
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.quadratic_group import QuadraticGroup
from deltaai.models.variable import Variable
from deltaai.models.zoo.arguments import MOST_SIDE, checked_count, checked_scale
from deltaai.models.zoo.layouts import lattice_pairs
from deltaai.randomness import generator_of


def gaussian_lattice(side: int, coupling: float, seed: int, ridge: float = 1.0) -> FactorGraph:
    """Gaussian field on a square lattice with open borders.

    Parameters
    ----------
    side : variables along a side.
    coupling : precision of the difference between neighbours; zero makes all independent.
    seed : the fields, and the signs of couplings.
    ridge : precision of every variable alone.

    Examples
    --------
    >>> gaussian_lattice(side=4, coupling=1.0, seed=0)
    FactorGraph(16 variables, 40 factors)
    """
    side = checked_count("side", side, least=1, most=MOST_SIDE)
    names = [f"x_{row}_{column}" for row in range(side) for column in range(side)]
    return _field(names, lattice_pairs(side), coupling, ridge, generator_of(seed))


def gaussian_tree(
    num_variables: int, coupling: float, seed: int, ridge: float = 1.0
) -> FactorGraph:
    """Gaussian field on a random tree: each variable is joined to one that stands before it.

    Parameters
    ----------
    num_variables : its size.
    coupling, ridge : as for :func:`gaussian_lattice`.
    seed : the tree, the fields, and the signs of couplings.

    Examples
    --------
    >>> gaussian_tree(num_variables=6, coupling=1.0, seed=0)
    FactorGraph(6 variables, 11 factors)
    """
    count = checked_count("num_variables", num_variables, least=1)
    generator = generator_of(seed)
    chance = torch.rand(count - 1, generator=generator, dtype=torch.float64, device="cpu")
    child = torch.arange(1, count, device="cpu")
    pairs = torch.stack(((chance * child).long(), child), dim=1)
    return _field([f"x{n}" for n in range(count)], pairs, coupling, ridge, generator)


def _field(
    names: Sequence[str],
    pairs: Int[Tensor, "pair 2"],
    coupling: float,
    ridge: float,
    generator: torch.Generator,
) -> FactorGraph:
    coupling, ridge = checked_scale("coupling", coupling), checked_scale("ridge", ridge)
    if ridge == 0:
        raise ModelError(
            f"ridge must be above 0, not {shown(ridge)}: it is what holds the field, whose density "
            "would not integrate"
        )
    drawn = torch.randint(2, (len(pairs),), generator=generator, device="cpu")
    signs = 2.0 * drawn.double() - 1.0
    fields = torch.randn(len(names), 1, generator=generator, dtype=torch.float64, device="cpu")
    difference = torch.stack((torch.ones_like(signs), -signs), dim=1)  # x_u - s x_v
    squares = coupling * difference[:, :, None] * difference[:, None, :]
    alone = torch.full((len(names), 1, 1), ridge, dtype=torch.float64, device="cpu")
    each = torch.arange(len(names), device="cpu")
    groups = [
        _group(0, pairs, squares, torch.zeros_like(difference)),
        _group(len(pairs), each[:, None], alone, fields),
    ]
    variables = [Variable(name, support="line") for name in names]
    return FactorGraph.from_groups(variables, [group for group in groups if group.num_factors])


def _group(
    first: int,
    scopes: Int[Tensor, "factor arity"],
    precision: Float[Tensor, "factor arity arity"],
    shift: Float[Tensor, "factor arity"],
) -> QuadraticGroup:
    ids = first + torch.arange(len(scopes), device="cpu")
    zero = torch.zeros(len(scopes), dtype=torch.float64, device="cpu")
    return QuadraticGroup(ids, scopes, (0,) * scopes.shape[1], precision, shift, zero)
