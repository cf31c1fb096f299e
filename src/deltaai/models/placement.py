"""A model where it is wanted: on a device, or on the CPU for what is computed there alone."""

from __future__ import annotations

import torch

from deltaai.devices import CPU
from deltaai.models.factor_graph import FactorGraph


def on_device(model: FactorGraph, device: torch.device | None) -> FactorGraph:
    """The model on a device: itself if it is there or none is named, so that it may go on learning.

    >>> from deltaai.models import zoo
    >>> model = zoo.sprinkler()
    >>> on_device(model, torch.device("cpu")) is model
    True
    """
    return model if device is None or device == model.device else model.to(device=device)


def on_cpu(model: FactorGraph) -> FactorGraph:
    """The model on the CPU, where tables, messages and chains are computed."""
    return on_device(model, CPU)
