"""Inference in sparse graphical models.

>>> import deltaai as dai
>>> model = dai.zoo.sprinkler()
>>> dai.plan(model).method
'exact'
>>> answer = dai.query(model, evidence={"wet_grass": "yes"}, of=["rain"])
>>> answer.marginals["rain"].round(3), answer.status
(array([0.292, 0.708]), 'exact')
"""

from importlib.metadata import version

from deltaai.errors import (
    ConversionError,
    DeltaAIError,
    EvidenceError,
    FormatError,
    GraphError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    ModelError,
    NotAffordableError,
    StateError,
    TrainingError,
)
from deltaai.exact import ExactInference, exact
from deltaai.inference import (
    Answer,
    Estimate,
    Marginals,
    Plan,
    Sampler,
    TableAnswer,
    check,
    fit,
    plan,
    query,
    query_table,
)
from deltaai.inference import load_sampler as load
from deltaai.io import (
    from_pgmpy,
    from_pyagrum,
    read,
    read_evidence,
    read_evidence_table,
    to_pgmpy,
    to_pyagrum,
    write,
)
from deltaai.models import (
    ConditionalTable,
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
    zoo,
)

__version__ = version("deltaai")

__all__ = [
    "Answer",
    "ConditionalTable",
    "ConversionError",
    "DeltaAIError",
    "Estimate",
    "EvidenceError",
    "ExactInference",
    "FactorGraph",
    "FormatError",
    "GraphError",
    "ImpossibleEvidenceError",
    "Marginals",
    "MemoryLimitError",
    "ModelError",
    "NeuralFactor",
    "NotAffordableError",
    "Plan",
    "Sampler",
    "SpinCoupling",
    "SpinField",
    "StateError",
    "TableAnswer",
    "TableFactor",
    "TrainingError",
    "Variable",
    "check",
    "exact",
    "fit",
    "from_pgmpy",
    "from_pyagrum",
    "load",
    "plan",
    "query",
    "query_table",
    "read",
    "read_evidence",
    "read_evidence_table",
    "to_pgmpy",
    "to_pyagrum",
    "write",
    "zoo",
]
