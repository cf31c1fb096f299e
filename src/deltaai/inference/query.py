"""One question, one answer: plan, then the best affordable method.

An exact answer comes from bucket elimination. A sampled one comes from a q that is trained for the
question: evidence and zeros are propagated first, which often makes the model smaller; zeros that
stay are floored for training; weights take the true factors; and the answer is judged by its
weights and by independent chains before it is called more than ``"untrusted"``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from deltaai.errors import ConfigError, MemoryLimitError, did_you_mean
from deltaai.exact.inference import ExactInference, Progress
from deltaai.inference.fit import fit
from deltaai.inference.plan import Plan, plan
from deltaai.inference.trust import Status
from deltaai.models import Evidence, FactorGraph
from deltaai.models.determinism import propagate_zeros
from deltaai.models.smoothing import has_zeros
from deltaai.training.loop import Progress as TrainingProgress

METHODS = ("exact", "sampler", "auto")
NUM_SAMPLES = 10_000
SMOOTHING = 1e-3


@dataclass(frozen=True, eq=False)
class Answer:
    """Posterior marginals and the evidence's log score, with how far to trust them.

    Parameters
    ----------
    marginals : probabilities of each asked variable's states, in the order of its states.
    log_partition : log Z of the model given the evidence.
    status : ``"exact"``, ``"estimated"`` or ``"untrusted"``.
    seconds : time the answer took, planning included.
    plan : what was predicted before.
    stderr : standard error of ``log_partition``.
    ess : effective sample size, and ``khat`` the shape of the weights' tail, if it was sampled.
    doubts : why it is not to be trusted, one sentence each, with the remedy.
    """

    marginals: dict[str, np.ndarray]
    log_partition: float
    status: Status
    seconds: float
    plan: Plan
    stderr: float = 0.0
    ess: float | None = None
    khat: float | None = None
    doubts: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """Where log Z lies with 95 % confidence, if the status allows to say so."""
        return self.log_partition - 1.96 * self.stderr, self.log_partition + 1.96 * self.stderr


def query(
    model: FactorGraph,
    evidence: Evidence | None = None,
    of: Sequence[str] | None = None,
    *,
    method: str = "exact",
    memory_limit: int | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
) -> Answer:
    """Answer a question about a model.

    Parameters
    ----------
    model : the target.
    evidence : what was observed: names to labels or state indices.
    of : the variables to report; all by default.
    method : ``"exact"``; ``"sampler"`` trains a sampler for the question; ``"auto"`` does so only
        where an exact answer does not fit.
    memory_limit : bytes an exact answer may use (default: half of what is free).
    time_limit : seconds to train a sampler at most.
    seed : of a sampler's randomness.
    progress : called with the fraction done during long exact work.
    watch : called after every update of training.

    Raises
    ------
    MemoryLimitError
        If the answer is to be exact and does not fit.
    """
    start = time.perf_counter()
    if method not in METHODS:
        guess = did_you_mean(method, METHODS)
        raise ConfigError(f"method is {method!r}{guess}; one of {', '.join(METHODS)}")
    asked = [model.variables[model.index(name)].name for name in of] if of is not None else None
    planned = plan(model, evidence, memory_limit=memory_limit)
    if method == "exact" and planned.method != "exact":
        raise MemoryLimitError(planned.width, planned.predicted_bytes, planned.memory_limit)
    if planned.method == "exact" and method != "sampler":
        answer = _exact(model, evidence, planned, progress)
    else:
        answer = _sampled(model, evidence, planned, time_limit, seed, watch)
    wanted = answer.marginals if asked is None else {n: answer.marginals[n] for n in asked}
    seconds = time.perf_counter() - start
    return replace(answer, marginals=wanted, seconds=seconds)


def _exact(
    model: FactorGraph, evidence: Evidence | None, planned: Plan, progress: Progress | None
) -> Answer:
    engine = ExactInference(
        model,
        evidence,
        memory_limit=planned.memory_limit,
        elimination=planned.elimination,
        progress=progress,
    )
    log_partition = engine.log_partition()
    return Answer(engine.marginals(), log_partition, "exact", 0.0, planned)


def _sampled(
    model: FactorGraph,
    evidence: Evidence | None,
    planned: Plan,
    time_limit: float | int | None,
    seed: int,
    watch: Callable[[TrainingProgress], None] | None,
) -> Answer:
    reduction = propagate_zeros(model, evidence)
    if reduction.model.num_variables == 0:  # evidence and zeros leave no choice
        return Answer(reduction.expand_marginals({}), reduction.log_scale, "exact", 0.0, planned)
    smoothing = SMOOTHING if has_zeros(reduction.model) else None
    limits: dict[str, Any] = {} if time_limit is None else {"time_limit": time_limit}
    sampler = fit(reduction.model, smoothing=smoothing, seed=seed, watch=watch, **limits)
    generator = torch.Generator().manual_seed(seed)
    samples = sampler.posterior({}, NUM_SAMPLES, generator)
    judged = sampler.trust(samples, generator=generator)
    estimate = samples.estimate
    return Answer(
        reduction.expand_marginals(samples.marginals()),
        estimate.log_partition + reduction.log_scale,
        judged.status,
        0.0,
        planned,
        estimate.stderr,
        estimate.ess,
        estimate.khat,
        judged.doubts,
    )
