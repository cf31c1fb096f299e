"""The 8 x 8 digits that come with scikit-learn: small enough for a first try without any files."""

from __future__ import annotations

import torch

from deltaai.extras import extra
from deltaai.io.images.image_set import ImageSet

_NUM_TRAIN = 1400
_LARGEST = 16  # grey levels are from 0 to 16


def read_digits() -> ImageSet:
    """Read scikit-learn's digits: 1797 images of 8 x 8 pixels, in the order of the file.

    The first 1400 are to learn from and the other 397 to judge by. The file goes through the
    writers one after the other, so the split tells how a model does on new hands.

    Raises
    ------
    DeltaAIError
        When scikit-learn is not installed.

    Examples
    --------
    >>> digits = read_digits()
    >>> len(digits.train), len(digits.test), digits.num_pixels, digits.num_classes
    (1400, 397, 64, 10)
    """
    found = extra("sklearn.datasets", "data", "digits").load_digits()
    pixels = torch.from_numpy(found.data).to(torch.float32) / _LARGEST
    labels = torch.from_numpy(found.target).to(torch.int64)
    return ImageSet(
        "digits",
        8,
        pixels[:_NUM_TRAIN],
        labels[:_NUM_TRAIN],
        pixels[_NUM_TRAIN:],
        labels[_NUM_TRAIN:],
    )
