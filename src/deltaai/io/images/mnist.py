"""MNIST from its four original files: from a folder, or fetched once and checked.

The files are looked for in the folder that is given, then in the one that the environment variable
``DELTAAI_DATA_DIR`` names (either may be the folder itself or have them in ``mnist/``), and are
otherwise downloaded with pooch, which keeps them and compares their SHA-256.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from deltaai.arguments import checked_path
from deltaai.errors import DeltaAIError, FormatError, Setting, one_line
from deltaai.extras import extra
from deltaai.io.images.idx import read_idx
from deltaai.io.images.image_set import ImageSet

DATA_DIR_VARIABLE = "DELTAAI_DATA_DIR"
_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_CHECKSUMS = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read_mnist(data_dir: str | Path | None = None) -> ImageSet:
    """Read MNIST: 60,000 images of 28 x 28 pixels to learn from, and 10,000 to judge by.

    Parameters
    ----------
    data_dir : folder with the four IDX files, compressed (``.gz``) or not, or with a folder
        ``mnist`` that has them; by default ``DELTAAI_DATA_DIR``, and else they are downloaded.

    Raises
    ------
    FormatError
        When a file is missing or is not what it should be.
    DeltaAIError
        When they cannot be downloaded.
    """
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE) or None
    folder = None if named is None else _folder_of(checked_path(named, "data_dir"))
    train, train_labels, test, test_labels = (
        read_idx(_fetched(name) if folder is None else _file_in(folder, name), num_axes)
        for name, num_axes in zip(_CHECKSUMS, (3, 1, 3, 1), strict=True)
    )
    if train.shape[1] != train.shape[2]:
        raise FormatError(
            folder or "MNIST", None, f"its images have {train.shape[1]} x {train.shape[2]} pixels"
        )

    def grey(images: Tensor) -> Tensor:
        return images.flatten(1).to(torch.float32) / 255

    tensors = [torch.from_numpy(each.copy()) for each in (train, train_labels, test, test_labels)]
    return ImageSet(
        "mnist",
        train.shape[1],
        grey(tensors[0]),
        tensors[1].long(),
        grey(tensors[2]),
        tensors[3].long(),
    )


def _folder_of(data_dir: Path) -> Path:
    """The folder with the files: the one that was named, or ``mnist`` in it."""
    for folder in (data_dir, data_dir / "mnist"):
        if any(path.exists() for name in _CHECKSUMS for path in _candidates(folder, name)):
            return folder
    raise FormatError(
        data_dir,
        None,
        f"no MNIST here or in its folder mnist: the files are {', '.join(_CHECKSUMS)}, with .gz "
        "or without",
    )


def _candidates(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.gz", folder / name


def _file_in(folder: Path, name: str) -> Path:
    packed, plain = _candidates(folder, name)
    return plain if plain.exists() and not packed.exists() else packed


def _fetched(name: str) -> Path:
    """A file that pooch has or downloads."""
    remedy = (
        "; or give the folder with its four files as ",
        Setting("data_dir"),
        f", or in the environment variable {DATA_DIR_VARIABLE}",
    )
    try:
        pooch = extra("pooch", "data", "downloads of MNIST")
    except DeltaAIError as error:
        raise DeltaAIError(*error.args, *remedy) from None
    try:
        return Path(
            pooch.retrieve(
                url=f"{_ADDRESS}{name}.gz",
                known_hash=f"sha256:{_CHECKSUMS[name]}",
                fname=f"{name}.gz",
                path=pooch.os_cache("deltaai") / "mnist",
            )
        )
    except Exception as error:  # of the network, the disk, or a checksum: pooch has them all
        reason = one_line(error, longest=200)
        raise DeltaAIError(f"cannot download MNIST ({reason}): try again", *remedy) from None
