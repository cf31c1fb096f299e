"""Ising models and spin glasses on ladders, lattices and tori.

The paper's energy (appendix "Synthetic experiments") is

    E(s) = σ · (-sᵀ J s - sᵀ b),    p(s) ∝ exp(-E(s)),    s = 2x - 1 in {-1, +1}

with J symmetric, so each pair of neighbours counts **twice**:

    log score = σ · (2 Σ_{pairs} J_uv s_u s_v + Σ_u b_u s_u),    J_uv and b_u = ±1 at random.

Strengths are one tensor a model, never one object a factor. Couplings come first in
``model.factors``, then fields.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.spin_group import SpinGroup
from deltaai.models.variable import Variable
from deltaai.models.zoo.arguments import MOST_SIDE, checked_count, checked_scale
from deltaai.models.zoo.layouts import (
    ladder_pairs,
    lattice_pairs,
    row_variables,
    square_variables,
    torus_pairs,
)
from deltaai.randomness import generator_of


def ising_ladder(num_variables: int, sigma: float, seed: int) -> FactorGraph:
    """Ising model on a row in which variable i is coupled to i + 1 and i + 2.

    The graph is chordal with induced width 2, so it is exactly solvable at any length.

    Parameters
    ----------
    num_variables : length of the row.
    sigma : sharpness, the paper's σ; zero is the uniform distribution.
    seed : the signs of couplings and fields.

    Examples
    --------
    >>> ising_ladder(num_variables=5, sigma=0.2, seed=0)
    FactorGraph(5 variables, 12 factors)
    """
    num_variables = checked_count("num_variables", num_variables, least=1)
    return _random_ising(row_variables(num_variables), ladder_pairs(num_variables), sigma, seed)


def ising_lattice(side: int, sigma: float, seed: int) -> FactorGraph:
    """Ising model on a square lattice with open borders.

    Parameters
    ----------
    side : variables along a side.
    sigma : sharpness, the paper's σ; zero is the uniform distribution.
    seed : the signs of couplings and fields.

    Examples
    --------
    >>> ising_lattice(side=4, sigma=0.2, seed=0)
    FactorGraph(16 variables, 40 factors)
    """
    side = checked_count("side", side, least=1, most=MOST_SIDE)
    return _random_ising(square_variables(side), lattice_pairs(side), sigma, seed)


def ising_torus(side: int, sigma: float, seed: int) -> FactorGraph:
    """Ising model on a square lattice whose opposite borders meet.

    A side below 3 is refused: with 2 every pair of neighbours would be coupled twice over, once
    each way round, and with 1 a variable would be its own neighbour.

    Parameters
    ----------
    side : variables along a side, at least 3.
    sigma : sharpness, the paper's σ; zero is the uniform distribution.
    seed : the signs of couplings and fields.

    Examples
    --------
    >>> ising_torus(side=4, sigma=0.2, seed=0)
    FactorGraph(16 variables, 48 factors)
    """
    side = checked_count(
        "side", side, least=3, why="below, the torus has doubled edges or loops", most=MOST_SIDE
    )
    return _random_ising(square_variables(side), torus_pairs(side), sigma, seed)


def spin_glass_grid(side: int, seed: int, scale: float = 1.0) -> FactorGraph:
    """Square lattice with normal couplings and no fields, each pair counted **once**.

        log score = scale · Σ_{pairs} J_uv s_u s_v,    J_uv ~ N(0, 1)

    Parameters
    ----------
    side : variables along a side.
    seed : the couplings.
    scale : standard deviation of the couplings (an inverse temperature).

    Examples
    --------
    >>> spin_glass_grid(side=4, seed=0)
    FactorGraph(16 variables, 24 factors)
    """
    side = checked_count("side", side, least=1, most=MOST_SIDE)
    scale = checked_scale("scale", scale)
    pairs = lattice_pairs(side)
    drawn = torch.randn(len(pairs), generator=generator_of(seed), dtype=torch.float64, device="cpu")
    return _of_spins(square_variables(side), [(pairs, scale * drawn)])


def _random_ising(
    variables: Sequence[Variable], pairs: Int[Tensor, "pair 2"], sigma: float, seed: int
) -> FactorGraph:
    sigma, generator = checked_scale("sigma", sigma), generator_of(seed)
    couplings = _random_signs(len(pairs), generator)
    fields = _random_signs(len(variables), generator)
    each = torch.arange(len(variables), device="cpu")[:, None]
    # 2σ: the symmetric J holds each pair at (u, v) and at (v, u).
    return _of_spins(variables, [(pairs, 2 * sigma * couplings), (each, sigma * fields)])


def _random_signs(count: int, generator: torch.Generator) -> Float[Tensor, "sign"]:
    return 2.0 * torch.randint(2, (count,), generator=generator, device="cpu").double() - 1.0


def _of_spins(
    variables: Sequence[Variable],
    parts: Sequence[tuple[Int[Tensor, "_ _"], Float[Tensor, "_"]]],  # scopes and strengths
) -> FactorGraph:
    """Build from groups of one arity; factors are numbered through all of them."""
    groups: list[SpinGroup] = []
    first = 0
    for scopes, strengths in parts:
        if len(scopes):
            groups.append(
                SpinGroup(first + torch.arange(len(scopes), device="cpu"), scopes, strengths)
            )
            first += len(scopes)
    return FactorGraph.from_groups(variables, groups)
