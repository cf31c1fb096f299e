"""One question, one answer: plan, then the best affordable method."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deltaai.errors import MemoryLimitError
from deltaai.exact.inference import ExactInference, Progress
from deltaai.inference.plan import Plan, plan
from deltaai.models import Evidence, FactorGraph


@dataclass(frozen=True, eq=False)
class Answer:
    """Posterior marginals and the evidence's log score, with how far to trust them.

    Parameters
    ----------
    marginals : probabilities of each asked variable's states, in the order of its states.
    log_partition : log Z of the model given the evidence.
    status : ``"exact"``.
    seconds : time the answer took, planning included.
    plan : what was predicted before.
    """

    marginals: dict[str, np.ndarray]
    log_partition: float
    status: Literal["exact"]
    seconds: float
    plan: Plan


def query(
    model: FactorGraph,
    evidence: Evidence | None = None,
    of: Sequence[str] | None = None,
    *,
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> Answer:
    """Answer a question about a model.

    Parameters
    ----------
    model : the target.
    evidence : what was observed: names to labels or state indices.
    of : the variables to report; all by default.
    memory_limit : bytes the answer may use (default: half of what is free).
    progress : called with the fraction done during long work.

    Raises
    ------
    MemoryLimitError
        If no method known here can answer within the limit.
    """
    start = time.perf_counter()
    asked = [model.variables[model.index(name)].name for name in of] if of is not None else None
    planned = plan(model, evidence, memory_limit=memory_limit)
    if planned.method != "exact":
        raise MemoryLimitError(planned.width, planned.predicted_bytes, planned.memory_limit)
    engine = ExactInference(
        model,
        evidence,
        memory_limit=planned.memory_limit,
        elimination=planned.elimination,
        progress=progress,
    )
    log_partition = engine.log_partition()
    marginals = engine.marginals()
    if asked is not None:
        marginals = {name: marginals[name] for name in asked}
    return Answer(marginals, log_partition, "exact", time.perf_counter() - start, planned)
