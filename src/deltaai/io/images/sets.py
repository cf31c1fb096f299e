"""Sets of images by name."""

from __future__ import annotations

from pathlib import Path

from deltaai.arguments import checked_choice
from deltaai.io.images.digits import read_digits
from deltaai.io.images.image_set import ImageSet
from deltaai.io.images.mnist import read_mnist

IMAGE_SETS = ("mnist", "digits")


def image_set(name: str, data_dir: str | Path | None = None) -> ImageSet:
    """Read a set of images by its name.

    Parameters
    ----------
    name : ``"mnist"`` or ``"digits"``.
    data_dir : where the files of MNIST are, see :func:`read_mnist`; digits need none.

    Examples
    --------
    >>> image_set("digits").side
    8
    """
    if checked_choice("name", name, IMAGE_SETS) == "digits":
        return read_digits()
    return read_mnist(data_dir)
