"""The body that angles turn: joints in a tree, and where each sits when nothing is turned.

A joint's angles say how it and all below it are turned relative to its parent. Its place is that of
its parent plus its offset, turned as the parent is; so with R_v the rotation of joint v in space,

    R_v = R_parent R(angles_v),   x_v = x_parent + R_parent offset_v.

Leaves have tips, so that hands, feet and the head are drawn as bones. Two skeletons are here, as
seen from the person itself: x to the left, y up, z to the front, in metres. Their proportions are
rough, for pictures only; the directions of their bones are those that the angles refer to. The
rest pose of the CMU data has its legs spread by 20 degrees, that of SMPL stands straight; both
hold their arms out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import StateError, shown
from deltaai.io.poses.rotations import rotation_matrices

# The 24 joints of SMPL, in its order, and the parent of each.
SMPL_NAMES = (
    "pelvis",
    "left_hip",
    "right_hip",
    "spine1",
    "left_knee",
    "right_knee",
    "spine2",
    "left_ankle",
    "right_ankle",
    "spine3",
    "left_foot",
    "right_foot",
    "neck",
    "left_collar",
    "right_collar",
    "head",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hand",
    "right_hand",
)
SMPL_PARENTS = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19, 20, 21)


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Joints in a tree, parents before children, and the bones between them.

    Parameters
    ----------
    names : of the joints, all different.
    parents : the parent of each joint, -1 for the first, which is the root.
    offsets : of each joint from its parent, when nothing is turned.
    tips : from each joint to the end of its last bone; zeros where there is none.

    Raises
    ------
    StateError
        When these make no tree of joints.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: Float64[Tensor, "joint 3"]
    tips: Float64[Tensor, "joint 3"]

    def __post_init__(self) -> None:
        count = len(self.names)
        if len(set(self.names)) < count or not count or not all(self.names):
            raise StateError(f"the joints are {shown(self.names)}: give names that differ")
        is_tree = len(self.parents) == count and self.parents[0] == -1
        if not is_tree or any(not 0 <= p < v for v, p in enumerate(self.parents) if v):
            raise StateError(
                f"the parents of {count} joints are {shown(self.parents)}: give -1 for the first "
                "and an earlier joint for each other"
            )
        for what, bones in (("offsets", self.offsets), ("tips", self.tips)):
            if bones.shape != (count, 3) or not bool(bones.isfinite().all()):
                raise StateError(
                    f"the {what} of {count} joints have shape {tuple(bones.shape)}: give three "
                    "finite numbers for each"
                )

    @property
    def num_joints(self) -> int:
        """How many joints there are."""
        return len(self.names)

    def first(self, number: int) -> Skeleton:
        """The first joints alone."""
        return Skeleton(
            self.names[:number],
            self.parents[:number],
            self.offsets[:number],
            self.tips[:number],
        )

    def places(
        self, angles: Float64[Tensor, "pose joint 3"]
    ) -> tuple[Float64[Tensor, "pose joint 3"], Float64[Tensor, "pose joint 3"]]:
        """Where joints and tips are, with the root at the origin (forward kinematics).

        >>> arms = smpl_skeleton()
        >>> joints, _ = arms.places(torch.zeros(1, 24, 3, dtype=torch.float64))
        >>> bool(joints[0, 20, 0] > 0 > joints[0, 21, 0])  # the left wrist is to the left
        True
        """
        if angles.ndim != 3 or angles.shape[1:] != (self.num_joints, 3):
            raise StateError(
                f"angles have shape {tuple(angles.shape)}: give (poses, {self.num_joints} joints, "
                "3)"
            )
        local = rotation_matrices(angles)
        turned, joints = [local[:, 0]], [self.offsets[0].expand(len(angles), 3)]
        for joint, parent in enumerate(self.parents[1:], start=1):
            turned.append(turned[parent] @ local[:, joint])
            joints.append(joints[parent] + turned[parent] @ self.offsets[joint])
        places = torch.stack(joints, 1)
        ends = torch.stack(turned, 1) @ self.tips[:, :, None]
        return places, places + ends.squeeze(-1)


Point = tuple[float, float, float]
_SPREAD = math.radians(20)
_DOWN_AND_OUT: Point = (math.sin(_SPREAD), -math.cos(_SPREAD), 0.0)
# Joints in the middle, then those of the left side; the right one is its mirror image.
_SMPL_MIDDLE: dict[str, Point] = {
    "pelvis": (0.0, 0.0, 0.0),
    "spine1": (0.0, 0.11, -0.02),
    "spine2": (0.0, 0.13, 0.0),
    "spine3": (0.0, 0.06, 0.01),
    "neck": (0.0, 0.22, -0.02),
    "head": (0.0, 0.09, 0.04),
}
_SMPL_LEFT: dict[str, Point] = {
    "hip": (0.07, -0.08, 0.0),
    "knee": (0.03, -0.39, 0.0),
    "ankle": (-0.01, -0.41, -0.03),
    "foot": (0.03, -0.06, 0.12),
    "collar": (0.07, 0.12, -0.01),
    "shoulder": (0.11, 0.04, -0.01),
    "elbow": (0.26, 0.0, -0.02),
    "wrist": (0.25, 0.0, 0.0),
    "hand": (0.08, 0.0, 0.0),
}
_CMU_MIDDLE: dict[str, Point] = {
    "pelvis": (0.0, 0.0, 0.0),
    "spine1": (0.0, 0.03, 0.0),
    "spine2": (0.0, 0.14, -0.01),
    "spine3": (0.0, 0.14, 0.0),
    "neck": (0.0, 0.14, 0.0),
    "head": (0.0, 0.16, 0.0),
}
_CMU_LEFT: dict[str, Point] = {
    "hip": (0.08, -0.08, 0.0),
    "knee": (0.41 * _DOWN_AND_OUT[0], 0.41 * _DOWN_AND_OUT[1], 0.0),
    "ankle": (0.41 * _DOWN_AND_OUT[0], 0.41 * _DOWN_AND_OUT[1], 0.0),
    "foot": (0.01, -0.03, 0.13),
    "collar": (0.0, 0.10, 0.0),
    "shoulder": (0.18, 0.06, -0.02),
    "elbow": (0.28, 0.0, 0.0),
    "wrist": (0.24, 0.0, 0.0),
    "hand": (0.04, 0.0, 0.0),
}
_TIPS: dict[str, Point] = {
    "head": (0.0, 0.2, 0.03),
    "foot": (0.0, -0.01, 0.07),
    "hand": (0.11, 0.0, 0.0),
}


def smpl_skeleton() -> Skeleton:
    """The 24 joints of SMPL."""
    return _skeleton(_SMPL_MIDDLE, _SMPL_LEFT)


def cmu_skeleton() -> Skeleton:
    """The joints of the CMU data that correspond to those of SMPL."""
    return _skeleton(_CMU_MIDDLE, _CMU_LEFT)


def _skeleton(middle: dict[str, Point], left: dict[str, Point]) -> Skeleton:
    """A symmetric body from its middle and its left side."""

    def bone(name: str, middle: dict[str, Point], left: dict[str, Point]) -> Point:
        side, _, part = name.rpartition("_")
        x, y, z = left.get(part, (0.0, 0.0, 0.0)) if side else middle.get(name, (0.0, 0.0, 0.0))
        return (-x if side == "right" else x, y, z)

    offsets = [bone(name, middle, left) for name in SMPL_NAMES]
    tips = [bone(name, _TIPS, _TIPS) for name in SMPL_NAMES]
    return Skeleton(
        SMPL_NAMES,
        SMPL_PARENTS,
        torch.tensor(offsets, dtype=torch.float64, device="cpu"),
        torch.tensor(tips, dtype=torch.float64, device="cpu"),
    )
