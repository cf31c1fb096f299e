"""The paper's figures, one file each; a harness that runs their parts; contests on files."""

from deltaai.experiments.contest.contest import Contest, run_contest
from deltaai.experiments.contest.results import Rules
from deltaai.experiments.contest.summary import Judged
from deltaai.experiments.harness.parts import Experiment, Part, Row, Surroundings
from deltaai.experiments.harness.registry import (
    experiment_names,
    find_experiment,
    register_experiment,
)
from deltaai.experiments.harness.reproduce import Reproduction, reproduce
from deltaai.experiments.harness.runner import Standing

__all__ = [
    "Contest",
    "Experiment",
    "Judged",
    "Part",
    "Reproduction",
    "Row",
    "Rules",
    "Standing",
    "Surroundings",
    "experiment_names",
    "find_experiment",
    "register_experiment",
    "reproduce",
    "run_contest",
]
