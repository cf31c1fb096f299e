"""Objectives: each returns residuals or per-sample losses, and nothing else."""

from deltaai.objectives.delta import DeltaBatch, delta_residuals, draw_alternatives, prepare

__all__ = ["DeltaBatch", "delta_residuals", "draw_alternatives", "prepare"]
