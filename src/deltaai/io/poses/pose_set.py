"""A set of human poses: how the joints of a skeleton are turned, frame by frame.

Frames of one clip are near each other, so what is learned from some frames and judged by others is
judged fairly only if these are of other clips. Every frame says of which it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from deltaai.errors import StateError
from deltaai.io.poses.skeleton import Skeleton

_LARGEST = 2 * math.pi + 1e-3  # axis times angle: one turn is as far as anything can be turned


@dataclass(frozen=True, eq=False)
class PoseSet:
    """Poses of one skeleton.

    Parameters
    ----------
    name : of the data set.
    skeleton : joints, their tree, and their places when nothing is turned.
    angles : axis times angle of each joint in radians, relative to its parent; that of the root
        relative to space.
    clips : which clip each frame is of, numbers from 0 on.
    up : the axis of space that points up.

    Raises
    ------
    StateError
        When these do not fit together, or are no angles.

    Examples
    --------
    >>> from deltaai.io import smpl_skeleton
    >>> angles = torch.zeros(2, 24, 3, dtype=torch.float64)
    >>> poses = PoseSet("still", smpl_skeleton(), angles, torch.tensor([0, 0]))
    >>> poses.num_frames, poses.num_clips, poses.names[:2], poses.parents[:2]
    (2, 1, ('pelvis', 'left_hip'), (-1, 0))
    """

    name: str
    skeleton: Skeleton
    angles: Float64[Tensor, "frame joint 3"]
    clips: Int64[Tensor, "frame"]
    up: Literal["y", "z"] = "y"

    def __post_init__(self) -> None:
        shape, count = tuple(self.angles.shape), self.skeleton.num_joints
        if len(shape) != 3 or shape[1:] != (count, 3) or not shape[0]:
            raise StateError(
                f"the angles of {self.name} have shape {shape}: give at least one frame of "
                f"{count} joints with 3 angles"
            )
        if self.angles.dtype != torch.float64 or self.clips.dtype != torch.int64:
            raise StateError(
                f"the angles of {self.name} are {self.angles.dtype} with clips of "
                f"{self.clips.dtype}: give float64 and int64"
            )
        if self.clips.shape != (shape[0],) or bool((self.clips < 0).any()):
            raise StateError(
                f"the clips of {self.name} have shape {tuple(self.clips.shape)}: give a number "
                f"from 0 on for each of {shape[0]} frames"
            )
        wrong = (~(self.angles.abs() <= _LARGEST)).nonzero()  # also where it is NaN
        if len(wrong):
            frame, joint, axis = wrong[0].tolist()
            raise StateError(
                f"frame {frame} of {self.name} has angle {float(self.angles[frame, joint, axis]):g}"
                f" at {self.names[joint]}: give radians within one turn"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self.skeleton.names

    @property
    def parents(self) -> tuple[int, ...]:
        """The parent of each joint, -1 for the root."""
        return self.skeleton.parents

    @property
    def offsets(self) -> Float64[Tensor, "joint 3"]:
        """Of each joint from its parent, when nothing is turned."""
        return self.skeleton.offsets

    @property
    def num_frames(self) -> int:
        """How many poses there are."""
        return len(self.angles)

    @property
    def num_clips(self) -> int:
        """How many clips have frames here."""
        return len(torch.unique(self.clips))

    def keep(self, is_kept: Tensor) -> PoseSet:
        """The frames that are kept; clips keep their numbers."""
        return PoseSet(self.name, self.skeleton, self.angles[is_kept], self.clips[is_kept], self.up)
