"""Poses that nobody took: a body that walks, bends and waves, for a first try without any files.

Every clip has a pace, a bend and a way of holding its arms, and every frame a phase of the walk;
angles follow these, with some noise. So hips and knees, left and right, go together as those of
people do. As in real data, knees and elbows have one axis, collars do not move, and the root turns.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.arguments import checked_count
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.skeleton import SMPL_NAMES, smpl_skeleton
from deltaai.randomness import generator_of

_NOISE = 0.05  # radians
_STILL = ("left_collar", "right_collar")
_HINGES = {"knee": 0, "elbow": 1, "foot": 0}  # the axis that these turn about


def synthetic_poses(num_clips: int = 60, frames_a_clip: int = 10, seed: int = 0) -> PoseSet:
    """Make up clips of somebody who walks.

    Parameters
    ----------
    num_clips, frames_a_clip : how many, and how long.
    seed : of all randomness.

    Examples
    --------
    >>> poses = synthetic_poses(num_clips=3, frames_a_clip=4)
    >>> poses.num_frames, poses.num_clips
    (12, 3)
    """
    clips = checked_count("num_clips", num_clips, 1)
    frames = checked_count("frames_a_clip", frames_a_clip, 1)
    generator, size = generator_of(seed), clips * frames
    which = torch.arange(clips, device="cpu").repeat_interleave(frames)

    def normal(*shape: int) -> Float64[Tensor, "..."]:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")

    pace, bend, lift, heading = (normal(clips)[which] for _ in range(4))
    start = 2 * math.pi * torch.rand(clips, generator=generator, dtype=torch.float64, device="cpu")
    step = torch.arange(frames, device="cpu", dtype=torch.float64).repeat(clips)
    phase = start[which] + step * (1 + 0.2 * pace)
    reach = 0.4 * (0.3 * pace).exp()
    angles = _NOISE * normal(size, len(SMPL_NAMES), 3)

    def turn(name: str, axis: int, by: Float64[Tensor, "frame"] | float) -> None:
        angles[:, SMPL_NAMES.index(name), axis] += by

    turn("pelvis", 1, 0.6 * heading)
    for name in ("spine1", "spine2", "spine3"):
        turn(name, 0, 0.12 + 0.1 * bend)
    turn("neck", 0, -0.1 * bend)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        swing = sign * phase.sin()
        turn(f"{side}_hip", 0, -reach * swing - 0.1)
        turn(f"{side}_knee", 0, 0.2 + reach * (1 - (sign * phase.cos())))
        turn(f"{side}_ankle", 0, 0.2 * reach * swing)
        turn(f"{side}_foot", 0, 0.1 * swing.clamp(min=0))
        turn(f"{side}_shoulder", 2, sign * (0.25 * lift - 1.1))
        turn(f"{side}_shoulder", 1, sign * 0.6 * reach * swing)
        turn(f"{side}_elbow", 1, -sign * (0.5 + 0.3 * lift.clamp(min=-1)))
    for place, name in enumerate(SMPL_NAMES):
        if name in _STILL:
            angles[:, place] = 0.0
        axis = _HINGES.get(name.rpartition("_")[2])
        if axis is not None:
            angles[:, place, [other for other in range(3) if other != axis]] = 0.0
    return PoseSet("synthetic", smpl_skeleton(), angles, which)
