"""The learners of images by method: what the figures of images compare.

Each entry makes a learner from the images, the settings of its part and a seed. Every E-step is
here by its name, with the defaults of its settings. A new method is one line in :data:`LEARNERS`,
and its label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from deltaai.experiments.harness.parts import Setting
from deltaai.io import ImageSet
from deltaai.learning import (
    E_STEPS,
    AutoencoderConfig,
    ImageLearner,
    LatentConfig,
    LatentLearner,
    VariationalAutoencoder,
)

Options = Mapping[str, Setting]

LABELS = {
    "delta": "Δ-AI",
    "delta-partial": "Δ-AI, partial inference",
    "delta-many": "Δ-AI, many orders",
    "tb": "TB",
    "db": "DB",
    "fl-db": "FL-DB",
    "mean-field": "mean field",
    "sleep": "wake-sleep",
    "importance": "importance-weighted",
    "gibbs": "Gibbs",
    "vae": "VAE",
}
# Settings of a method's own, by data set: a part's result depends on them.
# Products with images as wide as those of MNIST take most of an update, and need no precision.
_HALF: dict[str, dict[str, Setting]] = {"mnist": {"context_precision": "bfloat16"}}
SETTINGS: dict[str, dict[str, dict[str, Setting]]] = {
    **dict.fromkeys((*E_STEPS, "delta-many"), _HALF),
    "vae": {
        "mnist": {"num_latents": 164, "hidden": 512, "batch_size": 128},
        "digits": {"num_latents": 40, "hidden": 128, "batch_size": 128},
    },
}


def _autoencoder(images: ImageSet, options: Options, seed: int) -> ImageLearner:
    config = AutoencoderConfig(
        num_latents=int(options["num_latents"]),
        hidden=int(options["hidden"]),
        batch_size=int(options["batch_size"]),
        seconds=float(options["time_limit"]),
        updates=int(options["updates"]) or None,
    )
    return VariationalAutoencoder(images, config, seed)


def _latent(
    method: str, orders: Literal["one", "many"], images: ImageSet, options: Options, seed: int
) -> ImageLearner:
    # A limit of updates is what rates follow, for it is what runs are compared at.
    updates = int(options["updates"]) or None
    seconds = None if updates else float(options["time_limit"])
    precision: Any = str(options.get("context_precision", "single"))
    config = LatentConfig(
        method=method,
        orders=orders,
        context_precision=precision,
        updates=updates,
        seconds=seconds,
    )
    return LatentLearner.of(images, config, seed=seed)


LEARNERS: dict[str, Callable[[ImageSet, Options, int], ImageLearner]] = {
    **{method: partial(_latent, method, "one") for method in E_STEPS},
    "delta-partial": partial(_latent, "delta-partial", "many"),
    "delta-many": partial(_latent, "delta", "many"),
    "vae": _autoencoder,
}


def own_settings(method: str, data: str) -> dict[str, Setting]:
    """Settings of a method that others do not have."""
    return dict(SETTINGS.get(method, {}).get(data, {}))
