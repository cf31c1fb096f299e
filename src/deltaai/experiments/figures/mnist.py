"""Figure "Results on latent-variable modeling of MNIST": one or several methods, for a given time.

``deltaai reproduce mnist --method delta,vae --time-limit 720``. The comparison of all methods with
several seeds is ``mnist-compare``.
"""

from __future__ import annotations

from deltaai.experiments.harness.image_figure import image_experiment
from deltaai.experiments.harness.image_methods import LABELS

EXPERIMENT = image_experiment(
    "mnist",
    "Latent-variable models of MNIST",
    "NLL and sample entropy over training time on MNIST, for the methods that are named.",
    methods=tuple(LABELS),
    data_sets=("mnist",),
    time_limits={"smoke": {"mnist": 2.0}, "small": {"mnist": 720.0}, "paper": {"mnist": 43200.0}},
    default_methods=("delta", "vae"),
    num_seeds=1,
)
