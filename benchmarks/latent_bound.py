"""The importance-weighted bound of a finished part of ``deltaai reproduce mnist``, for all images.

The figure has IW-5000 of some test images, for that of all takes as long as training did. This
takes up the learner that a part has left, and judges it by the same pixels in the same order.

    python benchmarks/latent_bound.py FOLDER [--part NAME] [--images 10000] [--samples 5000]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from deltaai.experiments.harness.image_judge import ImageJudge
from deltaai.experiments.harness.image_methods import LEARNERS
from deltaai.experiments.harness.part_files import read_parts
from deltaai.experiments.harness.reproduce import SURROUNDINGS
from deltaai.io import image_set
from deltaai.metrics import DigitClassifier, importance_bounds
from deltaai.randomness import generator_of

AT_ONCE = 100  # images between two lines of progress


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="mnist--delta--0")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    (part,) = (
        found.part for found in read_parts(arguments.folder) if found.part.name == arguments.part
    )
    images = image_set(part.model, arguments.data_dir)
    learner = LEARNERS[part.method](images, part.options, part.seed)
    learner.restore(arguments.folder / SURROUNDINGS / f"{part.name}.checkpoint")
    classifier = DigitClassifier(images.side, images.num_classes, generator_of(0))
    pixels = ImageJudge.of(images, classifier, part.options).pixels[arguments.first :]
    sizes, found, began = (100, arguments.samples), {}, time.process_time()
    for start in range(0, min(arguments.images, len(pixels)), AT_ONCE):
        some = pixels[start : start + AT_ONCE]
        generator = generator_of(arguments.first + start)
        for size, bound in importance_bounds(learner.log_weights, some, sizes, generator).items():
            found.setdefault(size, []).append(bound)
        told = []
        for size, bounds in found.items():
            values = torch.cat(bounds)
            error = float(values.std()) / len(values) ** 0.5
            told.append(f"IW-{size} {-float(values.mean()):.3f} ± {error:.3f}")
        took = time.process_time() - began
        print(f"{start + len(some)} images: {', '.join(told)}, CPU {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
