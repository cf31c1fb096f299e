"""From a model to a trained sampler: defaults, q, ``fit``, ``Sampler``, its files."""

from deltaai.fitting.defaults import (
    TrainingCost,
    flat_log_partition,
    suitable_config,
    suitable_graph,
    suitable_hidden,
    training_cost,
)
from deltaai.fitting.fit_model import fit
from deltaai.fitting.loading import load_sampler
from deltaai.fitting.posterior import bytes_of_samples
from deltaai.fitting.proposals import build_proposal
from deltaai.fitting.sampler import DRAWN_PER_SAMPLE, Sampler

__all__ = [
    "DRAWN_PER_SAMPLE",
    "Sampler",
    "TrainingCost",
    "build_proposal",
    "bytes_of_samples",
    "fit",
    "flat_log_partition",
    "load_sampler",
    "suitable_config",
    "suitable_graph",
    "suitable_hidden",
    "training_cost",
]
