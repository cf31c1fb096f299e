"""Models that are learned from data."""

from deltaai.learning.from_table import learn
from deltaai.learning.report import LearnedModel, LearningReport

__all__ = ["LearnedModel", "LearningReport", "learn"]
