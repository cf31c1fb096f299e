"""Objectives: each returns residuals or per-sample losses, and nothing else."""

from deltaai.objectives.delta import DeltaBatch, delta_residuals, draw_alternatives, prepare
from deltaai.objectives.stochastic import stochastic_delta_losses, stochastic_square

__all__ = [
    "DeltaBatch",
    "delta_residuals",
    "draw_alternatives",
    "prepare",
    "stochastic_delta_losses",
    "stochastic_square",
]
