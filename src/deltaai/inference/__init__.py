"""Inference as a user meets it: plan, query, and a look at the model."""

from deltaai.inference.check import ModelReport, check
from deltaai.inference.plan import Plan, plan
from deltaai.inference.query import Answer, query

__all__ = ["Answer", "ModelReport", "Plan", "check", "plan", "query"]
