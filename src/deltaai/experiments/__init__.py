"""The paper's figures: a harness that runs parts, and one file a figure."""

from deltaai.experiments.harness.parts import Experiment, Part, Row, Surroundings
from deltaai.experiments.harness.registry import (
    experiment_names,
    find_experiment,
    register_experiment,
)
from deltaai.experiments.harness.reproduce import Reproduction, reproduce
from deltaai.experiments.harness.runner import Standing

__all__ = [
    "Experiment",
    "Part",
    "Reproduction",
    "Row",
    "Standing",
    "Surroundings",
    "experiment_names",
    "find_experiment",
    "register_experiment",
    "reproduce",
]
