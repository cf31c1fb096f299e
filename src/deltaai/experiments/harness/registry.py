"""The experiments by name.

Every module listed here defines ``EXPERIMENT``. They are imported when asked for, because each
brings the training code of its methods. A new figure is one new module and one line here.
"""

from __future__ import annotations

import importlib

from deltaai.errors import ConfigError, did_you_mean
from deltaai.experiments.harness.parts import Experiment

# name -> module
MODULES: dict[str, str] = {
    "synthetic-gfn": "deltaai.experiments.figures.synthetic_gfn",
    "synthetic-mcmc": "deltaai.experiments.figures.synthetic_mcmc",
    "any-order": "deltaai.experiments.figures.any_order",
}


def experiment_names() -> tuple[str, ...]:
    """Names of all experiments, in the order of the paper."""
    return tuple(MODULES)


def find_experiment(name: str) -> Experiment:
    """Find an experiment by its name; underscores may stand for dashes.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    wanted = name.replace("_", "-")
    if wanted not in MODULES:
        raise ConfigError(
            f"no experiment {name!r}{did_you_mean(wanted, MODULES)} "
            f"(experiments: {', '.join(MODULES)})"
        )
    experiment = importlib.import_module(MODULES[wanted]).EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment
