"""Poses in files like those of AMASS: one ``.npz`` a clip, or a folder of them, however deep.

Each has ``poses`` (frames, 72 numbers or more), axis times angle of one joint after the other, and
``mocap_framerate``. Files of 72 numbers have the 24 joints of SMPL; longer ones (SMPL+H, SMPL-X)
agree with these in the first 22 joints, and have fingers and faces after them, which are left out.
Of each clip so many frames a second are taken, for neighbouring ones are nearly the same.

The files are not free to pass on: whoever uses them has got them from their source.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from deltaai.arguments import checked_number
from deltaai.errors import FormatError, one_line
from deltaai.io.poses.npz import array_names, opened_npz, read_array
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.skeleton import smpl_skeleton

_RATES = ("mocap_framerate", "mocap_frame_rate")  # older and newer files
_SMPL_JOINTS, _SHARED_JOINTS = 24, 22
# Files that lie beside the clips and describe bodies.
_NO_CLIPS = ("shape.npz", "_shape.npz", "_stagei.npz")


def read_amass_poses(path: Path, rate: float | int = 1.0) -> PoseSet:
    """Read the poses of a file, or of all files in a folder and the folders in it.

    Parameters
    ----------
    path : file or folder.
    rate : frames a second that are taken of each clip; the first one always is.

    Raises
    ------
    FormatError
        When there are none, or something is wrong with one of them.
    """
    rate = checked_number("rate", rate)
    files = [path] if not path.is_dir() else clips_in(path)
    if not files:
        raise FormatError(path, None, "there are no clips (.npz) in this folder")
    read = [_read_clip(file, rate) for file in files]
    joints = min(angles.shape[1] for angles in read)
    clips = np.repeat(np.arange(len(read)), [len(angles) for angles in read])
    together = np.concatenate([angles[:, :joints] for angles in read])
    return PoseSet(
        "amass",
        smpl_skeleton().first(joints),
        torch.from_numpy(together),
        torch.from_numpy(clips),
        up="z",
    )


def clips_in(folder: Path) -> list[Path]:
    """Files of clips below a folder, in the order of their names."""
    try:
        found = sorted(path for path in folder.rglob("*.npz") if path.is_file())
    except OSError as error:
        raise FormatError(folder, None, f"cannot be read: {error.strerror}") from None
    return [path for path in found if not path.name.endswith(_NO_CLIPS)]


def _read_clip(path: Path, rate: float) -> np.ndarray:
    """Some frames of a clip: (frame, joint, 3)."""
    with opened_npz(path) as archive:
        names = array_names(archive)
        name = next((each for each in _RATES if each in names), _RATES[0])
        captured = float(read_array(path, archive, name, "fiu", ()))
        poses = read_array(path, archive, "poses", "f", (None, None))
    if not (np.isfinite(captured) and captured > 0):
        raise FormatError(path, None, f"its {name!r} is {captured:g}; expected frames a second")
    width = poses.shape[1]
    if width < 3 * _SMPL_JOINTS or width % 3:
        raise FormatError(
            path,
            None,
            f"its array 'poses' has {width} columns; expected three for each of at least "
            f"{_SMPL_JOINTS} joints",
        )
    if not len(poses):
        raise FormatError(path, None, "there are no frames in it")
    joints = _SMPL_JOINTS if width == 3 * _SMPL_JOINTS else _SHARED_JOINTS
    taken = poses[:: max(round(captured / rate), 1), : 3 * joints].astype(np.float64)
    wrong = ~(np.abs(taken) <= 2 * np.pi + 1e-3)
    if wrong.any():
        frame, column = np.argwhere(wrong)[0]
        value = one_line(taken[frame, column])
        raise FormatError(
            path, None, f"its array 'poses' has the angle {value}; expected radians within one turn"
        )
    return taken.reshape(len(taken), joints, 3)
