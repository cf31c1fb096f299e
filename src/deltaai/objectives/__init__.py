"""Objectives: each returns residuals or per-sample losses, and nothing else."""

from deltaai.objectives.delta import (
    DeltaBatch,
    delta_residuals,
    draw_alternatives,
    every_alternative,
    prepare,
)
from deltaai.objectives.log_variance import PathBatch, log_variance_losses, prepare_paths
from deltaai.objectives.stochastic import stochastic_delta_losses, stochastic_square

__all__ = [
    "DeltaBatch",
    "PathBatch",
    "delta_residuals",
    "draw_alternatives",
    "every_alternative",
    "log_variance_losses",
    "prepare",
    "prepare_paths",
    "stochastic_delta_losses",
    "stochastic_square",
]
