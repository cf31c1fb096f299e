"""Inference as a user meets it: plan, query, and a look at the model."""

from deltaai.inference.answer import Answer
from deltaai.inference.check import ModelReport, check
from deltaai.inference.estimate import Estimate, Marginals
from deltaai.inference.fit import fit
from deltaai.inference.loading import load_sampler
from deltaai.inference.plan import Plan, plan
from deltaai.inference.query import query
from deltaai.inference.sampler import Sampler
from deltaai.inference.table_answer import TableAnswer
from deltaai.inference.table_query import query_table
from deltaai.inference.ways import Option

__all__ = [
    "Answer",
    "Estimate",
    "Marginals",
    "ModelReport",
    "Option",
    "Plan",
    "Sampler",
    "TableAnswer",
    "check",
    "fit",
    "load_sampler",
    "plan",
    "query",
    "query_table",
]
