"""From a model to a trained sampler: defaults, q, ``fit``, ``Sampler``, its files."""

from deltaai.fitting.defaults import (
    TrainingCost,
    columns_at_once,
    flat_log_partition,
    suitable_config,
    suitable_graph,
    suitable_hidden,
    training_cost,
)
from deltaai.fitting.fit_model import fit
from deltaai.fitting.judging import posteriors_given
from deltaai.fitting.loading import load_sampler, moved_sampler
from deltaai.fitting.posterior import bytes_of_samples
from deltaai.fitting.runs import set_up_run
from deltaai.fitting.sampler import DRAWN_PER_SAMPLE, Sampler, answer_given, samples_given
from deltaai.fitting.spec import EvidenceFor, SamplerSpec

__all__ = [
    "DRAWN_PER_SAMPLE",
    "EvidenceFor",
    "Sampler",
    "SamplerSpec",
    "TrainingCost",
    "answer_given",
    "bytes_of_samples",
    "columns_at_once",
    "fit",
    "flat_log_partition",
    "load_sampler",
    "moved_sampler",
    "posteriors_given",
    "samples_given",
    "set_up_run",
    "suitable_config",
    "suitable_graph",
    "suitable_hidden",
    "training_cost",
]
