"""Judging learners of images: bounds on the test likelihood, entropy of samples, and examples.

All learners of a data set are judged by the same pixels, drawn once from the test images, in an
order of their own: parts of the files of MNIST are easier than others. Randomness is the judge's,
so a learner goes on as if nobody had looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.errors import FormatError
from deltaai.experiments.harness.image_methods import Options
from deltaai.io import ImageSet, binarised, load_tensors, save_tensors
from deltaai.learning import ImageLearner
from deltaai.metrics import (
    DigitClassifier,
    classifier_accuracy,
    importance_bounds,
    prediction_entropy,
    train_classifier,
)
from deltaai.randomness import generator_of

FEW, MANY = 100, 5000  # samples of the two bounds: the paper's, and that of the literature
NUM_EXAMPLES = 40
_PIXEL_SEED, _LATENT_SEED, _SAMPLE_SEED = 1, 2, 3
_CLASSIFIER_KIND, _EXAMPLES_KIND = "digit classifier", "images"


@dataclass(frozen=True, eq=False)
class ImageJudge:
    """What learners of one data set are held against.

    Parameters
    ----------
    images : the data set.
    grey : its test images, in an order of their own.
    pixels : zeros and ones drawn from these.
    classifier : what judges samples.
    options : settings of the part, which say how many images are looked at.
    """

    images: ImageSet
    grey: Float[Tensor, "image pixel"]
    pixels: Float[Tensor, "image pixel"]
    classifier: DigitClassifier
    options: Options

    @classmethod
    def of(cls, images: ImageSet, classifier: DigitClassifier, options: Options) -> ImageJudge:
        """The judge of a data set: the same for everybody."""
        generator, test = generator_of(_PIXEL_SEED), images.test
        order = torch.randperm(len(test), generator=generator, dtype=torch.long, device="cpu")
        grey = test[order.to(test.device)]
        return cls(images, grey, binarised(grey, generator), classifier, options)

    def on_the_way(self, learner: ImageLearner) -> dict[str, float]:
        """Metrics that are measured often, on some images."""
        some = self.pixels[: int(self.options["curve_images"])]
        return {"nll": self._nll(learner, some, (FEW,))[FEW], "entropy": self._entropy(learner)}

    def at_the_end(self, learner: ImageLearner) -> dict[str, float]:
        """Metrics that are measured once."""
        few = self.pixels[: int(self.options["end_images"])]
        some = self.pixels[: int(self.options["many_images"])]
        both = self._nll(learner, some, (FEW, MANY))
        counts = {f"parameters_{key}": value for key, value in learner.num_parameters.items()}
        return {
            "nll_100": self._nll(learner, few, (FEW,))[FEW],
            "nll_100_of_some": both[FEW],
            "nll_5000_of_some": both[MANY],
            "num_updates": learner.num_updates,
            **counts,
        }

    def of_the_data(self) -> dict[str, float]:
        """What does not depend on a learner."""
        images = self.images
        return {
            "classifier_accuracy": classifier_accuracy(
                self.classifier, images.test, images.test_labels
            ),
            "entropy_of_data": prediction_entropy(self.classifier, images.test),
        }

    def write_examples(self, learner: ImageLearner, path: Path) -> None:
        """Keep samples and reconstructions, to be drawn beside those of others."""
        shown = self.pixels[:NUM_EXAMPLES]
        tensors = {
            "samples": learner.sample(NUM_EXAMPLES, generator_of(_SAMPLE_SEED)),
            "data": self.grey[:NUM_EXAMPLES],
            "inputs": shown,
            "reconstructions": learner.reconstruct(shown, generator_of(_LATENT_SEED)),
        }
        save_tensors(path, tensors, {"side": self.images.side}, kind=_EXAMPLES_KIND)

    def _nll(
        self, learner: ImageLearner, pixels: Tensor, sizes: tuple[int, ...]
    ) -> dict[int, float]:
        generator = generator_of(_LATENT_SEED)
        bounds = importance_bounds(learner.log_weights, pixels, sizes, generator)
        return {size: -float(bound.mean()) for size, bound in bounds.items()}

    def _entropy(self, learner: ImageLearner) -> float:
        number = int(self.options["num_drawn"])
        return prediction_entropy(
            self.classifier, learner.sample(number, generator_of(_SAMPLE_SEED))
        )


def read_examples(path: Path) -> tuple[dict[str, Tensor], int]:
    """Samples and reconstructions of a learner, what they should be like, and an image's side."""
    tensors, metadata = load_tensors(path, _EXAMPLES_KIND)
    return tensors, int(metadata["side"])


def kept_classifier(images: ImageSet, updates: int, folder: Path) -> DigitClassifier:
    """The classifier of a data set: from the folder, or trained now and left there."""
    path = folder / f"{images.name}-classifier.safetensors"
    metadata = {"images": images.name, "updates": updates}
    try:
        tensors, found = load_tensors(path, _CLASSIFIER_KIND)
    except FormatError:  # there is none yet, or half of one
        tensors, found = {}, {}
    if found == metadata:
        classifier = DigitClassifier(images.side, images.num_classes, generator_of(0))
        classifier.load_state_dict(tensors)
        return classifier
    classifier = train_classifier(images, updates=updates)
    save_tensors(path, classifier.state_dict(), metadata, kind=_CLASSIFIER_KIND)
    return classifier
