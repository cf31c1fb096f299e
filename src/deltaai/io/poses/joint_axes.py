"""Which coordinates a joint has: the directions in which its angles vary at all.

A joint that never turns has none. One whose angles keep to a line through space, such as a knee
about a tilted axis, would have coordinates that are functions of each other, and a density that is
nowhere finite: it has the one along that line instead. In general, with σ the deviations along the
principal directions of a joint's angles,

    number of coordinates = number of σ above the tolerance;

where as many of its own three angles vary these are kept as they are, and else the principal
directions take their place. Nothing is said of angles that keep to a curved surface, as those of
ankles with two axes do: there a third coordinate nearly follows from the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class JointAxes:
    """Coordinates of one joint, and what its angles are where they say nothing.

    Parameters
    ----------
    directions : of each coordinate, orthonormal.
    rest : angles of the joint when all coordinates are zero: none along the directions.
    """

    directions: Float64[Tensor, "coordinate 3"]
    rest: Float64[Tensor, "3"]

    @classmethod
    def of(cls, angles: Float64[Tensor, "frame 3"], tolerance: float | int) -> JointAxes:
        """Coordinates along which some angles vary by more than a tolerance."""
        mean = angles.mean(0)
        squares = (angles - mean).T @ (angles - mean) / len(angles)
        variances, vectors = torch.linalg.eigh(squares)
        count = int((variances > tolerance**2).sum())
        is_varying = squares.diagonal() > tolerance**2
        if int(is_varying.sum()) == count:
            directions = torch.eye(3, dtype=angles.dtype, device=angles.device)[is_varying]
        else:
            directions = vectors.T.flip(0)[:count]
            largest = directions.abs().argmax(1, keepdim=True)
            directions = directions * directions.gather(1, largest).sign()  # of the two ways
        return cls(directions, mean - (directions @ mean) @ directions)

    @property
    def count(self) -> int:
        """How many coordinates there are."""
        return len(self.directions)

    def coordinates(self, angles: Float64[Tensor, "frame 3"]) -> Float64[Tensor, "frame _"]:
        """Coordinates of angles, in radians."""
        return angles @ self.directions.T

    def angles(self, coordinates: Float64[Tensor, "frame _"]) -> Float64[Tensor, "frame 3"]:
        """Angles with these coordinates."""
        return self.rest + coordinates @ self.directions
