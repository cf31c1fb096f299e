"""Where variables stand: ladders, square lattices and tori, as tables of variable numbers.

A square layout numbers its variables row by row. Everything is an array operation, so that layouts
of a million variables are cheap. This file knows nothing of factors.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.models.variable import Variable

Scopes = Int[Tensor, "scope arity"]


def row_variables(num_variables: int, states: int = 2) -> list[Variable]:
    """Variables ``x0``, ``x1``, ... of a row."""
    return [Variable(f"x{position}", states) for position in range(num_variables)]


def square_variables(side: int, states: int = 2) -> list[Variable]:
    """Variables ``x_0_0``, ``x_0_1``, ... of a square, named by row and column."""
    return [Variable(f"x_{row}_{column}", states) for row in range(side) for column in range(side)]


def ladder_pairs(num_variables: int) -> Scopes:
    """Pairs one apart, then pairs two apart, in a row of variables.

    >>> ladder_pairs(4).tolist()
    [[0, 1], [1, 2], [2, 3], [0, 2], [1, 3]]
    """
    near, far = (_runs(num_variables, length)[:, [0, -1]] for length in (2, 3))
    return torch.cat((near, far))


def consecutive(num_variables: int, length: int) -> Scopes:
    """All runs of ``length`` neighbours in a row of variables.

    >>> consecutive(5, 4).tolist()
    [[0, 1, 2, 3], [1, 2, 3, 4]]
    """
    return _runs(num_variables, length)


def lattice_pairs(side: int) -> Scopes:
    """Horizontal, then vertical neighbours in a square.

    >>> lattice_pairs(2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    number = _numbering(side)
    return torch.cat((_beside(number[:, :-1], number[:, 1:]), _beside(number[:-1], number[1:])))


def torus_pairs(side: int) -> Scopes:
    """Horizontal, then vertical neighbours in a square whose opposite borders meet."""
    number = _numbering(side)
    right, below = number.roll(-1, dims=1), number.roll(-1, dims=0)
    return torch.cat((_beside(number, right), _beside(number, below)))


def plaquettes(side: int) -> Scopes:
    """All 2 x 2 blocks of a square: top left, top right, bottom left, bottom right.

    >>> plaquettes(2).tolist()
    [[0, 1, 2, 3]]
    """
    number = _numbering(side)
    corners = (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:])
    return _beside(*corners)


def _numbering(side: int) -> Int[Tensor, "row column"]:
    return torch.arange(side * side, device="cpu").reshape(side, side)


def _beside(*places: Int[Tensor, "row column"]) -> Scopes:
    return torch.stack([place.reshape(-1) for place in places], dim=1)


def _runs(num_variables: int, length: int) -> Scopes:
    starts = torch.arange(max(num_variables - length + 1, 0), device="cpu")
    return starts[:, None] + torch.arange(length, device="cpu")
