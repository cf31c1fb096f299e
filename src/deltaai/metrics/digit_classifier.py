"""A small convolutional classifier, and how unsure it is about images.

The appendix of the paper ("Latent variable modeling of MNIST") judges samples by the entropy of
such a classifier's predictions: two convolutions (10 and 20 channels of 5 x 5), each with
max-pooling and ReLU, and two fully connected layers, with dropout of one half before each of these.
Images too small for that, such as those of 8 x 8 pixels, have kernels of 3 x 3 and one pooling.

Low entropy alone says little: a model that draws one perfect digit has it too.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.nn import functional

from deltaai.arguments import checked_count
from deltaai.conditionals import uniform_weights
from deltaai.errors import ConfigError
from deltaai.io import ImageSet
from deltaai.optimizers import Adam
from deltaai.randomness import generator_of, integers, uniform

CHANNELS = (10, 20)
HIDDEN = 50
_DROPPED = 0.5
_LEAST_SIDE, _LEAST_SIDE_OF_PAPER = 6, 16
_ROWS_AT_ONCE = 1000


class DigitClassifier(nn.Module):
    """Two convolutions and two fully connected layers.

    Parameters
    ----------
    side : pixels along an edge of an image.
    num_classes : of the labels.
    generator : randomness of the initial weights.
    device : where the weights are.

    Examples
    --------
    >>> classifier = DigitClassifier(28, 10, generator_of(0))
    >>> classifier(torch.zeros(3, 784)).shape
    torch.Size([3, 10])
    """

    def __init__(
        self,
        side: int,
        num_classes: int,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        if side < _LEAST_SIDE:
            raise ConfigError(
                f"images of {side} x {side} pixels are too small for two convolutions: give at "
                f"least {_LEAST_SIDE} x {_LEAST_SIDE}"
            )
        self.side = side
        is_paper = side >= _LEAST_SIDE_OF_PAPER
        self.kernel, self.pools = (5, (2, 2)) if is_paper else (3, (1, 2))
        first, second = CHANNELS
        left = side
        for pool in self.pools:
            left = (left - self.kernel + 1) // pool
        shapes = {
            "first": (first, 1, self.kernel, self.kernel),
            "second": (second, first, self.kernel, self.kernel),
            "hidden": (HIDDEN, second * left * left),
            "last": (num_classes, HIDDEN),
        }
        for name, shape in shapes.items():
            num_inputs = math.prod(shape[1:])
            for kind, size in (("weight", shape), ("bias", shape[:1])):
                drawn = uniform_weights(size, num_inputs, generator, device)
                self.register_parameter(f"{name}_{kind}", nn.Parameter(drawn))

    def forward(
        self, pixels: Float[Tensor, "image pixel"], dropout: torch.Generator | None = None
    ) -> Float[Tensor, "image label"]:
        """Logits of the classes; with ``dropout``, half of the features are left out."""
        rows = pixels.view(-1, 1, self.side, self.side)
        for name, pool in zip(("first", "second"), self.pools, strict=True):
            weight, bias = self._layer(name)
            rows = functional.max_pool2d(functional.conv2d(rows, weight, bias), pool).relu()
        features = _with_some_left_out(rows.flatten(1), dropout)
        hidden = functional.linear(features, *self._layer("hidden")).relu()
        return functional.linear(_with_some_left_out(hidden, dropout), *self._layer("last"))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.get_parameter(f"{name}_weight"), self.get_parameter(f"{name}_bias")


def train_classifier(
    images: ImageSet,
    *,
    updates: int = 10_000,
    batch_size: int = 64,
    learning_rate: float | int = 2e-3,
    seed: int = 0,
) -> DigitClassifier:
    """Train a classifier on the grey levels of a set, with Adam and a rate that falls to zero.

    Parameters
    ----------
    images : its training images are learned from; the others are not looked at.
    updates : in all; with the defaults MNIST is seen ten times, which takes a minute or two.
    batch_size : images of an update.
    learning_rate : at the start.
    seed : of the weights, the choice of images, and dropout.
    """
    checked_count("updates", updates, 1)
    checked_count("batch_size", batch_size, 1)
    generator, train = generator_of(seed), images.train
    classifier = DigitClassifier(images.side, images.num_classes, generator, train.device)
    optimizer = Adam(classifier.parameters(), lr=learning_rate)
    for step in range(updates):
        chosen = integers(len(train), (batch_size,), generator, train.device)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * step / updates))
        with torch.enable_grad():
            logits = classifier(train[chosen], generator)
            loss = functional.cross_entropy(logits, images.train_labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return classifier


def classifier_accuracy(
    classifier: DigitClassifier,
    pixels: Float[Tensor, "image pixel"],
    labels: Int[Tensor, "image"],
) -> float:
    """Share of images whose label is the most probable one."""
    found = _log_probabilities(classifier, pixels).argmax(1)
    return float((found == labels).double().mean())


def prediction_entropy(classifier: DigitClassifier, images: Float[Tensor, "image pixel"]) -> float:
    """Mean entropy of the predicted classes of images, in nats."""
    log_probabilities = _log_probabilities(classifier, images)
    return float(-(log_probabilities.exp() * log_probabilities).sum(1).mean())


@torch.no_grad()
def _log_probabilities(
    classifier: DigitClassifier, images: Float[Tensor, "image pixel"]
) -> Float64[Tensor, "image label"]:
    blocks = torch.split(images, _ROWS_AT_ONCE)
    parts = [classifier(block).double().log_softmax(1) for block in blocks]
    return torch.cat(parts)


def _with_some_left_out(
    features: Float[Tensor, "image feature"], dropout: torch.Generator | None
) -> Float[Tensor, "image feature"]:
    if dropout is None:
        return features
    drawn = uniform(features.shape, dropout, dtype=features.dtype, device=features.device)
    return features * (drawn >= _DROPPED) / (1 - _DROPPED)
