"""Figure "Results on latent-variable modeling of MNIST": all methods at equal wall-clock.

The paper trains each for 12 hours and shows five runs; ``small`` has minutes and three.
"""

from __future__ import annotations

from deltaai.experiments.harness.image_figure import image_experiment
from deltaai.experiments.harness.image_methods import LABELS

EXPERIMENT = image_experiment(
    "mnist-compare",
    "E-steps for a latent-variable model of MNIST",
    "NLL and sample entropy over equal training time on MNIST: every E-step, and a VAE.",
    methods=tuple(method for method in LABELS if method != "delta-many"),
    data_sets=("mnist",),
    time_limits={"smoke": {"mnist": 2.0}, "small": {"mnist": 720.0}, "paper": {"mnist": 43200.0}},
)
