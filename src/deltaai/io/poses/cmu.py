"""Poses of the CMU motion-capture database: 31 joints in a file, the 24 of SMPL here.

The file ``cmu_poses_1fps.npz`` holds one frame a second: ``axis_angle`` (frame, joint, 3),
``clip``, ``parents``, and ``smpl24_like``, which says for each joint of SMPL which one corresponds.
Where a joint between two of these is left out (the upper neck) its rotation is not lost: the joint
below it turns by both,

    R_head = R(upper neck) R(head),

so that every bone points where it did. Thumbs and fingertips are left out; they were not captured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from deltaai.errors import FormatError, shown
from deltaai.io.poses.npz import opened_npz, read_array
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.rotations import rotation_angles, rotation_matrices
from deltaai.io.poses.skeleton import SMPL_PARENTS, cmu_skeleton

FILE_NAME = "cmu_poses_1fps.npz"


def read_cmu_poses(path: Path) -> PoseSet:
    """Read the poses of the file.

    Raises
    ------
    FormatError
        When there is no such file, or something is wrong with it.
    """
    with opened_npz(path) as archive:
        angles = read_array(path, archive, "axis_angle", "f", (None, None, 3))
        frames, joints = angles.shape[:2]
        clips = read_array(path, archive, "clip", "iu", (frames,))
        parents = read_array(path, archive, "parents", "iu", (joints,)).astype(np.int64)
        chosen = read_array(path, archive, "smpl24_like", "iu", (24,)).astype(np.int64)
    if not frames:
        raise FormatError(path, None, "there are no frames in it")
    if not np.isfinite(angles).all():
        raise FormatError(path, None, "its array 'axis_angle' has entries that are not finite")
    if (clips.astype(np.int64) < 0).any():
        raise FormatError(path, None, "its array 'clip' has negative entries")
    between = _between(path, parents, chosen)
    found = torch.from_numpy(angles.astype(np.float64))
    kept = found[:, chosen].clone()
    for place, above in enumerate(between):
        # A joint that never turns changes nothing, and leaves the angles as they are in the file.
        turning = [joint for joint in above if bool(found[:, joint].any())]
        if turning:
            turned = rotation_matrices(kept[:, place])
            for joint in turning:  # from the nearest one up
                turned = rotation_matrices(found[:, joint]) @ turned
            kept[:, place] = rotation_angles(turned)
    return PoseSet("cmu", cmu_skeleton(), kept, torch.from_numpy(clips.astype(np.int64)))


def _between(path: Path, parents: np.ndarray, chosen: np.ndarray) -> list[list[int]]:
    """For each joint of SMPL, the joints of the file between it and its parent, upwards."""
    count = len(parents)
    is_tree = count and parents[0] == -1 and all(0 <= parents[v] < v for v in range(1, count))
    if not is_tree:
        raise FormatError(path, None, f"its array 'parents' is no tree: {shown(parents.tolist())}")
    places = {int(joint): place for place, joint in enumerate(chosen)}
    if len(places) < len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        raise FormatError(
            path,
            None,
            f"its array 'smpl24_like' is {shown(chosen.tolist())}: expected 24 different joints "
            f"from 0 to {count - 1}",
        )
    between = []
    for place, joint in enumerate(chosen):
        above, skipped = int(parents[joint]), []
        while above >= 0 and above not in places:
            skipped.append(above)
            above = int(parents[above])
        if places.get(above, -1) != SMPL_PARENTS[place]:
            raise FormatError(
                path, None, f"its joint {int(joint)} does not hang where that of SMPL does"
            )
        between.append(skipped)
    return between
