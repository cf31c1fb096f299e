"""Questions and answers: ``plan``, ``query``, tables of cases, a look at the model."""

from deltaai.answering.asking import answer_case, query
from deltaai.answering.events import Chance, probability
from deltaai.answering.likeliest import BestState, best_state_given, most_likely
from deltaai.answering.model_report import ModelReport, check, check_within
from deltaai.answering.planning import Plan, plan, plan_within
from deltaai.answering.questions import (
    SAMPLER_SUFFIX,
    Question,
    TableChoices,
    resolve,
    source_of,
    source_within,
    supposed,
)
from deltaai.answering.several import (
    Conditional,
    Conflict,
    Informative,
    conditional,
    conflict,
    informative,
)
from deltaai.answering.streamed_samples import SampleBlock, sample_stream
from deltaai.answering.table_answer import TableAnswer
from deltaai.answering.table_query import query_table
from deltaai.answering.table_stream import query_stream
from deltaai.answering.ways import Option

__all__ = [
    "SAMPLER_SUFFIX",
    "BestState",
    "Chance",
    "Conditional",
    "Conflict",
    "Informative",
    "ModelReport",
    "Option",
    "Plan",
    "Question",
    "SampleBlock",
    "TableAnswer",
    "TableChoices",
    "answer_case",
    "best_state_given",
    "check",
    "check_within",
    "conditional",
    "conflict",
    "informative",
    "most_likely",
    "plan",
    "plan_within",
    "probability",
    "query",
    "query_stream",
    "query_table",
    "resolve",
    "sample_stream",
    "source_of",
    "source_within",
    "supposed",
]
