"""Inference in sparse graphical models.

>>> import deltaai as dai
>>> model = dai.zoo.sprinkler()
>>> dai.plan(model).method
'exact'
>>> answer = dai.query(model, evidence={"wet_grass": "yes"}, of=["rain"])
>>> answer.marginals["rain"].round(3), answer.status
(array([0.292, 0.708]), 'exact')

Importing this takes no time: what stands behind a name is imported when the name is first used, and
torch with it. Type checkers and editors read the imports as they are written here.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, which is not worth importing for this
if TYPE_CHECKING:
    from deltaai.answering import (
        Plan,
        TableAnswer,
        check,
        conditional,
        conflict,
        informative,
        most_likely,
        plan,
        probability,
        query,
        query_table,
    )
    from deltaai.errors import (
        ConfigError,
        ConversionError,
        DeltaAIError,
        EvidenceError,
        FormatError,
        GraphError,
        ImpossibleEvidenceError,
        MemoryLimitError,
        ModelError,
        NotAffordableError,
        OutputError,
        StateError,
        TimeLimitError,
        TrainingError,
        WeightError,
    )
    from deltaai.exact import ExactInference, GaussianInference, exact
    from deltaai.fitting import Sampler, fit
    from deltaai.fitting import load_sampler as load
    from deltaai.io import (
        example,
        from_pgmpy,
        from_pyagrum,
        read,
        read_evidence,
        read_evidence_table,
        to_pgmpy,
        to_pyagrum,
        write,
    )
    from deltaai.learning import learn, learn_model, learnable
    from deltaai.models import (
        ConditionalTable,
        FactorGraph,
        FunctionFactor,
        GaussianFactor,
        Interval,
        LinearGaussian,
        MixtureFactor,
        NeuralFactor,
        QuadraticFactor,
        SpinCoupling,
        SpinField,
        StateIndex,
        TableFactor,
        Variable,
        intervened,
        with_likelihoods,
        zoo,
    )
    from deltaai.trust import Answer, Estimate, Marginals, RealMarginal

    __version__: str

__all__ = [
    "Answer",
    "ConditionalTable",
    "ConfigError",
    "ConversionError",
    "DeltaAIError",
    "Estimate",
    "EvidenceError",
    "ExactInference",
    "FactorGraph",
    "FormatError",
    "FunctionFactor",
    "GaussianFactor",
    "GaussianInference",
    "GraphError",
    "ImpossibleEvidenceError",
    "Interval",
    "LinearGaussian",
    "Marginals",
    "MemoryLimitError",
    "MixtureFactor",
    "ModelError",
    "NeuralFactor",
    "NotAffordableError",
    "OutputError",
    "Plan",
    "QuadraticFactor",
    "RealMarginal",
    "Sampler",
    "SpinCoupling",
    "SpinField",
    "StateError",
    "StateIndex",
    "TableAnswer",
    "TableFactor",
    "TimeLimitError",
    "TrainingError",
    "Variable",
    "WeightError",
    "check",
    "conditional",
    "conflict",
    "exact",
    "example",
    "fit",
    "from_pgmpy",
    "from_pyagrum",
    "informative",
    "intervened",
    "learn",
    "learn_model",
    "learnable",
    "load",
    "most_likely",
    "plan",
    "probability",
    "query",
    "query_table",
    "read",
    "read_evidence",
    "read_evidence_table",
    "to_pgmpy",
    "to_pyagrum",
    "with_likelihoods",
    "write",
    "zoo",
]

# Where names are looked for, in this order: errors need nothing else.
_HOMES = ("errors", "models", "io", "exact", "trust", "fitting", "learning", "answering")
_SUBMODULES = {"exact": "deltaai.exact", "zoo": "deltaai.models.zoo"}
_NAMES_THERE = {"load": "load_sampler"}


if not TYPE_CHECKING:  # which would take every name for one of these

    def __getattr__(name: str) -> object:
        from importlib import import_module, metadata  # noqa: PLC0415

        if name == "__version__":
            found: object = metadata.version("deltaai")
        elif name not in __all__:
            raise AttributeError(f"module 'deltaai' has no attribute {name!r}")
        elif name in _SUBMODULES:
            found = import_module(_SUBMODULES[name])
        else:
            there = _NAMES_THERE.get(name, name)
            homes = (import_module(f"deltaai.{home}") for home in _HOMES)
            found = next(getattr(home, there) for home in homes if hasattr(home, there))
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


del TYPE_CHECKING
