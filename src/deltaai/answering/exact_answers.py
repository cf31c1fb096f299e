"""Exact answers as planned: in one go, after zeros have been propagated, or in parts.

A :class:`~deltaai.answering.planning.Plan` knows the order, what zeros leave of the model and the
variables to fix. Nothing is searched for here, so an answer is exact if and only if its plan is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from deltaai.answering.planning import Plan
from deltaai.exact import (
    ConditionedInference,
    ExactInference,
    GaussianInference,
    MostLikely,
    Remainder,
    joint_of,
    refuse_large,
)
from deltaai.models import Reduction
from deltaai.progress import Fraction
from deltaai.trust import Answer, Marginals, exact_answer


def answer_exactly(planned: Plan, progress: Fraction | None) -> Answer:
    """Log Z and all marginals by the plan made for this very question, which must be exact."""
    start = time.perf_counter()
    reduction = planned.reduction
    if reduction is not None and reduction.model.num_variables == 0:
        return decided(reduction)
    engine = _engine(planned, progress)
    log_partition, found = engine.log_partition(), engine.marginals()
    how = "a sparse factor" if isinstance(engine, GaussianInference) else "elimination"
    if planned.cutset is not None:
        count = len(planned.cutset.variables)
        how = f"elimination given {count} {'variable' if count == 1 else 'variables'} at a time"
    answer = exact_answer(found, log_partition, time.perf_counter() - start, how)
    if reduction is None:
        return answer
    return expanded(answer, reduction, time.perf_counter() - start)


def decided(reduction: Reduction) -> Answer:
    """The answer where evidence and zeros leave one state."""
    marginals = reduction.expand_marginals({})
    return exact_answer(marginals, reduction.log_scale, 0.0, "zeros propagated")


def exact_joints(
    planned: Plan, joints: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], np.ndarray]:
    """Joint marginals by the plan made for this very question, which must be exact."""
    limit, reduction = planned.memory_limit, planned.reduction
    order = planned.elimination if planned.cutset is None else None
    if reduction is None:
        left = planned.remainder
        return {
            names: joint_of(left, names, elimination=order, memory_limit=limit) for names in joints
        }
    found, left = {}, Remainder.given(reduction.model, {})
    for names in joints:
        refuse_large(reduction.original, names)
        some = [name for name in names if name not in reduction.fixed]
        joint = joint_of(left, some, elimination=order, memory_limit=limit) if some else np.ones(())
        found[names] = reduction.expand_joint(names, joint)
    return found


def most_likely_as_planned(planned: Plan, progress: Fraction | None) -> MostLikely:
    """A most likely state by the plan made for this very question, which must be exact."""
    reduction, model = planned.reduction, planned.remainder.model
    if reduction is not None and reduction.model.num_variables == 0:
        found = MostLikely({}, torch.zeros(0, dtype=torch.long, device=model.device), 0.0)
    else:
        found = _engine(planned, progress).map()
    if reduction is None:
        return found
    (state,) = reduction.expand(found.state[None])
    return MostLikely.of(model, state, found.log_score + reduction.log_scale)


def _engine(
    planned: Plan, progress: Fraction | None
) -> ExactInference | ConditionedInference | GaussianInference:
    """What answers about the model that the plan leaves."""
    limit, reduction = planned.memory_limit, planned.reduction
    if not planned.remainder.reduced.is_discrete:
        return GaussianInference(
            planned.remainder, memory_limit=limit, elimination=planned.elimination
        )
    if planned.cutset is not None and reduction is not None:
        return ConditionedInference(
            reduction, planned.cutset, memory_limit=limit, progress=progress
        )
    return ExactInference(
        planned.remainder if reduction is None else reduction.model,
        memory_limit=limit,
        elimination=planned.elimination,
        progress=progress,
    )


def expanded(answer: Answer, reduction: Reduction, seconds: float) -> Answer:
    """The answer about the original model, from that about a smaller one."""
    shift, found = reduction.log_scale, answer.partition
    partition = replace(
        found,
        value=float(found) + shift,
        elbo=None if found.elbo is None else found.elbo + shift,
        bracket=found.bracket and (found.bracket[0] + shift, found.bracket[1] + shift),
        seconds=seconds,
    )
    errors = None
    if answer.marginals.stderr:
        errors = reduction.expand_marginals(answer.marginals.stderr)
        errors |= {name: np.zeros_like(errors[name]) for name in reduction.fixed}  # certain
    values = reduction.expand_marginals(answer.marginals)
    quality = replace(answer.marginals.quality, seconds=seconds)
    return replace(answer, marginals=Marginals(values, quality, errors), partition=partition)
