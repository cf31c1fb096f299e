"""A set of images with labels, and pixels that are drawn from their grey levels.

Models of images take a grey level in [0, 1] for the probability that a pixel is on, and see new
pixels drawn from it every time (*dynamic binarisation*): x ~ Bernoulli(grey level).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import StateError
from deltaai.randomness import uniform


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Square images in rows, to learn from and to judge by.

    Parameters
    ----------
    name : of the data set.
    side : pixels along an edge; a row has ``side`` times ``side`` of them, line by line.
    train, test : grey levels from 0 to 1, float32.
    train_labels, test_labels : the class of each image, int64.

    Raises
    ------
    StateError
        When these do not fit together.

    Examples
    --------
    >>> grey = torch.full((3, 4), 0.5)
    >>> labels = torch.zeros(3, dtype=torch.int64)
    >>> images = ImageSet("grey", 2, grey, labels, grey[:1], labels[:1])
    >>> images.num_pixels, images.num_classes
    (4, 1)
    """

    name: str
    side: int
    train: Float[Tensor, "image pixel"]
    train_labels: Int[Tensor, "image"]
    test: Float[Tensor, "held_out pixel"]
    test_labels: Int[Tensor, "held_out"]

    def __post_init__(self) -> None:
        for kind in ("train", "test"):
            pixels, labels = getattr(self, kind), getattr(self, f"{kind}_labels")
            where = f"the {kind} images of {self.name}"
            if pixels.dtype != torch.float32 or labels.dtype != torch.int64:
                raise StateError(
                    f"{where} are {pixels.dtype} with labels of {labels.dtype}: give float32 and "
                    "int64"
                )
            if pixels.ndim != 2 or pixels.shape[1] != self.side**2 or not len(pixels):
                raise StateError(
                    f"{where} have shape {tuple(pixels.shape)}: give at least one row of "
                    f"{self.side} x {self.side} pixels"
                )
            if labels.shape != (len(pixels),) or bool((labels < 0).any()):
                raise StateError(
                    f"{where} have labels of shape {tuple(labels.shape)}: give a class from 0 on "
                    f"for each of {len(pixels)}"
                )
            if not bool(((pixels >= 0) & (pixels <= 1)).all()):
                raise StateError(f"{where} have grey levels outside 0 to 1: divide by the largest")

    @property
    def num_pixels(self) -> int:
        """Pixels of an image."""
        return self.side**2

    @property
    def num_classes(self) -> int:
        """Classes, counted from the labels."""
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1


def binarised(
    pixels: Float[Tensor, "*image pixel"], generator: torch.Generator | None
) -> Float[Tensor, "*image pixel"]:
    """Pixels that are 1 with the probability that their grey level says, and 0 otherwise.

    >>> binarised(torch.tensor([[0.0, 1.0]]), None)
    tensor([[0., 1.]])
    """
    drawn = uniform(pixels.shape, generator, dtype=pixels.dtype, device=pixels.device)
    return (drawn < pixels).to(pixels.dtype)
