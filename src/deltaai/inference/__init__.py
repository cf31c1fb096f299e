"""Inference as a user meets it: plan, query, and a look at the model."""

from deltaai.inference.check import ModelReport, check
from deltaai.inference.fit import fit
from deltaai.inference.loading import load_sampler
from deltaai.inference.plan import Plan, plan
from deltaai.inference.query import Answer, query
from deltaai.inference.sampler import Sampler

__all__ = [
    "Answer",
    "ModelReport",
    "Plan",
    "Sampler",
    "check",
    "fit",
    "load_sampler",
    "plan",
    "query",
]
