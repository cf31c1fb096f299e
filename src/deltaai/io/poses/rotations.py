"""Rotations as axis times angle, and as matrices: Rodrigues' formula and its inverse.

    R = 1 + sin θ / θ [a] + (1 - cos θ) / θ² [a]²,   θ = |a|,   [a] b = a × b.

The inverse goes through quaternions, whose largest entry is never near zero, so it is exact near
half a turn too. There an axis and its opposite are the same rotation, and one of them is given.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

_SMALL = 1e-6  # angles below this have the first terms of a series


def rotation_matrices(angles: Float64[Tensor, "*batch 3"]) -> Float64[Tensor, "*batch 3 3"]:
    """Matrices of rotations about an axis by its length in radians.

    >>> quarter = torch.tensor([0.0, 0.0, torch.pi / 2], dtype=torch.float64)
    >>> (rotation_matrices(quarter) @ torch.tensor([1.0, 0.0, 0.0]).double()).round().tolist()
    [0.0, 1.0, 0.0]
    """
    squared = angles.square().sum(-1)[..., None, None]
    is_small = squared < _SMALL**2
    safe = torch.where(is_small, torch.ones_like(squared), squared).sqrt()
    first = torch.where(is_small, 1 - squared / 6, safe.sin() / safe)
    second = torch.where(is_small, 0.5 - squared / 24, (1 - safe.cos()) / safe.square())
    x, y, z = angles.unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), -1).view(*x.shape, 3, 3)
    identity = torch.eye(3, dtype=angles.dtype, device=angles.device)
    turned: Tensor = identity + first * cross + second * (cross @ cross)
    return turned


def rotation_angles(matrices: Float64[Tensor, "*batch 3 3"]) -> Float64[Tensor, "*batch 3"]:
    """Axis times angle of rotations, at most half a turn long.

    >>> angles = torch.tensor([0.3, -2.0, 1.1], dtype=torch.float64)
    >>> bool(torch.allclose(rotation_angles(rotation_matrices(angles)), angles))
    True
    """
    quaternions = _quaternions(matrices)
    # The opposite quaternion is the same rotation; that with a positive first entry is the short
    # way round.
    quaternions = torch.where(quaternions[..., :1] < 0, -quaternions, quaternions)
    cosine, sines = quaternions[..., :1], quaternions[..., 1:]
    sine = sines.norm(dim=-1, keepdim=True)
    is_small = sine < _SMALL
    safe = torch.where(is_small, torch.ones_like(sine), sine)
    factor = torch.where(is_small, 2 / cosine, 2 * torch.atan2(sine, cosine) / safe)
    return factor * sines


def _quaternions(matrices: Float64[Tensor, "*batch 3 3"]) -> Float64[Tensor, "*batch 4"]:
    """Unit quaternions, each from the row of q qᵀ whose diagonal entry is largest."""
    m = [[matrices[..., row, column] for column in range(3)] for row in range(3)]
    trace = m[0][0] + m[1][1] + m[2][2]
    # 4 q qᵀ, entry by entry.
    wx, wy, wz = m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]
    xy, xz, yz = m[0][1] + m[1][0], m[0][2] + m[2][0], m[1][2] + m[2][1]
    squares = [1 + trace, *(1 + 2 * m[axis][axis] - trace for axis in range(3))]
    rows = (
        (squares[0], wx, wy, wz),
        (wx, squares[1], xy, xz),
        (wy, xy, squares[2], yz),
        (wz, xz, yz, squares[3]),
    )
    products = torch.stack([torch.stack(row, -1) for row in rows], -2)
    largest = torch.stack(squares, -1).argmax(-1)[..., None, None]
    chosen = products.take_along_dim(largest, -2).squeeze(-2)
    unit: Tensor = chosen / chosen.norm(dim=-1, keepdim=True)
    return unit
