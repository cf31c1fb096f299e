"""Sets of poses by name, and where their files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from deltaai.arguments import checked_choice, checked_path
from deltaai.errors import DeltaAIError, FormatError, Setting
from deltaai.io.files import is_there
from deltaai.io.images.mnist import DATA_DIR_VARIABLE
from deltaai.io.poses.amass import read_amass_poses
from deltaai.io.poses.cmu import FILE_NAME, read_cmu_poses
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.synthetic import synthetic_poses

POSE_SETS = ("cmu", "amass", "synthetic")


def pose_set(name: str, data_dir: str | Path | None = None, rate: float | int = 1.0) -> PoseSet:
    """Read a set of poses by its name.

    Parameters
    ----------
    name : ``"cmu"``, ``"amass"``, or ``"synthetic"``, which needs no files.
    data_dir : the folder with the files, or one that has them in ``poses/`` (``amass/``); by
        default what the environment variable ``DELTAAI_DATA_DIR`` names. Nothing is downloaded.
    rate : frames a second that are taken of the clips of AMASS; the others are as they are.

    Raises
    ------
    FormatError
        When the files are not there, or something is wrong with them.

    Examples
    --------
    >>> pose_set("synthetic").num_clips
    60
    """
    if checked_choice("name", name, POSE_SETS) == "synthetic":
        return synthetic_poses()
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE) or None
    if named is None:
        raise DeltaAIError(
            f"the poses of {name} are not downloaded: give the folder with their files as ",
            Setting("data_dir"),
            f", or in the environment variable {DATA_DIR_VARIABLE}",
        )
    place = checked_path(named, "data_dir")
    if name == "cmu":
        return read_cmu_poses(_cmu_file(place))
    return read_amass_poses(_amass_folder(place), rate)


def _cmu_file(place: Path) -> Path:
    """The file: the one that was named, or one in the folder or in ``poses`` in it."""
    if place.suffix == ".npz":
        return place
    for path in (place / FILE_NAME, place / "poses" / FILE_NAME):
        if is_there(path):
            return path
    raise FormatError(place, None, f"no poses of CMU here or in its folder poses: {FILE_NAME}")


def _amass_folder(place: Path) -> Path:
    """The file or folder: the one that was named, or ``amass`` in it, if it is there."""
    if not is_there(place):
        raise FormatError(place, None, "there is no such file or folder")
    return place / "amass" if is_there(place / "amass") else place
