"""The figure of MNIST on scikit-learn's 8 x 8 digits: all methods in minutes, without files."""

from __future__ import annotations

from deltaai.experiments.harness.image_figure import image_experiment
from deltaai.experiments.harness.image_methods import LABELS

EXPERIMENT = image_experiment(
    "digits",
    "Latent-variable models of 8 x 8 digits",
    "NLL and sample entropy over training time on scikit-learn's digits: every E-step, and a VAE.",
    methods=tuple(LABELS),
    data_sets=("digits",),
    time_limits={"smoke": {"digits": 1.0}, "small": {"digits": 180.0}, "paper": {"digits": 3600.0}},
    num_seeds=1,
)
