"""The experiments by name.

Every module listed here defines ``EXPERIMENT``. They are imported when asked for, because each
brings the training code of its methods. A new figure is one new module and one line here; a user
adds one with :func:`register_experiment`.
"""

from __future__ import annotations

import importlib

from deltaai.errors import ConfigError, did_you_mean, shown
from deltaai.experiments.harness.parts import Experiment, is_key
from deltaai.registry import add_entry

# name -> module, or the experiment itself
MODULES: dict[str, str | Experiment] = {
    "synthetic-gfn": "deltaai.experiments.figures.synthetic_gfn",
    "synthetic-mcmc": "deltaai.experiments.figures.synthetic_mcmc",
    "any-order": "deltaai.experiments.figures.any_order",
    "mnist": "deltaai.experiments.figures.mnist",
    "mnist-compare": "deltaai.experiments.figures.mnist_compare",
    "one-vs-many-orders": "deltaai.experiments.figures.one_vs_many_orders",
    "digits": "deltaai.experiments.figures.digits",
    "poses": "deltaai.experiments.figures.poses",
    "ebm-recovery": "deltaai.experiments.figures.ebm_recovery",
    "score-matching": "deltaai.experiments.figures.score_matching",
}


def register_experiment(experiment: Experiment, *, replace: bool = False) -> None:
    """Make an experiment one that is found by its name.

    Parameters
    ----------
    experiment : with a name that a file can have. Its ``run_part`` must be a function of a module
        if parts are to run side by side, for other processes find it by its name.
    replace : whether it may take the place of one of that name.
    """
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"{shown(experiment)} is no experiment: give an Experiment")
    if not is_key(experiment.name) or "_" in experiment.name:  # underscores stand for dashes
        raise ConfigError(
            f"the name of an experiment is {shown(experiment.name)}: use letters, digits, single "
            "'-', '.' and '+'"
        )
    add_entry(MODULES, "experiment", experiment.name, experiment, replace=replace)


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
    found = MODULES[wanted]
    experiment = importlib.import_module(found).EXPERIMENT if isinstance(found, str) else found
    assert isinstance(experiment, Experiment)
    return experiment
