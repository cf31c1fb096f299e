"""The course of training for TensorBoard, if it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from deltaai.errors import ConfigError
from deltaai.training.loop import TrainingProgress

Watch = Callable[[TrainingProgress], None]


def watch_with_tensorboard(folder: str | Path) -> Watch:
    """Return a function for ``fit(watch=...)`` that writes loss, ELBO, log Z and ESS to a folder.

    Raises
    ------
    ConfigError
        If TensorBoard is not there: ``pip install deltaai[tensorboard]``.
    """
    try:
        module = importlib.import_module("torch.utils.tensorboard")
    except ImportError:
        raise ConfigError(
            "TensorBoard is not installed: pip install deltaai[tensorboard]"
        ) from None
    writer = module.SummaryWriter(str(folder))

    def watch(progress: TrainingProgress) -> None:
        writer.add_scalar("loss", progress.loss, progress.step)
        if progress.estimate is not None:
            writer.add_scalar("elbo", progress.estimate.elbo, progress.step)
            writer.add_scalar("log_partition", progress.estimate.log_partition, progress.step)
            writer.add_scalar("ess", progress.estimate.ess_fraction, progress.step)
        if progress.step == progress.steps:
            writer.close()

    return watch
