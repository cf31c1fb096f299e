"""One question, one answer: plan, then the best affordable method.

An exact answer comes from bucket elimination, in parts if need be, as the plan says
(:mod:`deltaai.answering.exact_answers`). A sampled one comes from a q that is trained for the
question: evidence and zeros are propagated first, which often makes the model smaller; zeros that
stay are floored for training; weights take the true factors; log Z gets an upper bound; and the
answer is judged by its weights, by a second opinion and by that bound before it is called more than
``"untrusted"``. Many rows of evidence at once are in :mod:`deltaai.answering.table_query`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deltaai.answering.exact_answers import answer_exactly, decided, exact_joints, expanded
from deltaai.answering.planning import SEARCH_SECONDS, Plan, plan_given
from deltaai.answering.questions import (
    Question,
    TableChoices,
    refuse_training,
    resolve,
    suitable_smoothing,
)
from deltaai.answering.table_query import answer_table
from deltaai.budget import Budget
from deltaai.devices import Device
from deltaai.errors import (
    ConfigError,
    MemoryLimitError,
    NotAffordableError,
    Setting,
    WeightError,
)
from deltaai.exact import Remainder, not_gaussian, refuse_real
from deltaai.fitting import Sampler, answer_given, bytes_of_samples, fit
from deltaai.heap import hand_back
from deltaai.io import is_frame
from deltaai.messages import loopy_belief_propagation, mini_bucket_bound
from deltaai.models import Evidence, FactorGraph, Likelihood, Reduction, zeros_propagated
from deltaai.progress import Fraction, Reports, reporting
from deltaai.randomness import generator_of
from deltaai.training import TrainingProgress
from deltaai.trust import (
    Answer,
    Asked,
    Estimate,
    Marginals,
    Quality,
    expanded_joints,
    finished,
    joints_of,
    refuse_joints,
    with_joints,
    with_observed,
)

_NO_SAMPLE = (
    "the sampler drew no possible state, so this is what loopy belief propagation says: train "
    "longer, or give evidence"
)
# What training leaves of the time, for the bound, samples and their check: a share, and so many
# seconds at most. Then the share of what is left that the bound may take.
_RESERVED_SHARE, _RESERVED_SECONDS, _BOUND_SHARE = 0.35, 30.0, 0.25
# The upper bound, in the order of q: entries of all tables and steps taken, a second or two in all.
_BOUND: dict[str, Any] = {"most_total_entries": 2**22, "num_iterations": 5}


def query(
    source: FactorGraph | Sampler | str | Path,
    evidence: Any = None,  # noqa: ANN401
    of: Sequence[Asked] | None = None,
    *,
    method: str = "auto",
    num_samples: int | None = None,
    check_samples: int | None = None,
    target_stderr: float | int | None = None,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    device: Device = None,
    progress: bool | Fraction | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
) -> Any:  # noqa: ANN401
    """Answer a question about a model, or one for each row of a table.

    Parameters
    ----------
    source : a model, a sampler that was trained for one, or the path of a file with either.
    evidence : what was observed: names to labels or state indices, which are written ``"#0"`` where
        labels are numbers; of a real variable its value. A ``DataFrame`` with blanks for unknown,
        or a list of mappings, asks once for each row
        (:func:`~deltaai.answering.table_query.query_table` has more to choose).
    of : the variables to report; all by default. A tuple of names, ``of=[("a", "b")]``, asks for
        their joint marginal, which is then ``answer.marginals["a", "b"]``.
    method : ``"auto"`` follows the plan; ``"exact"`` too, and refuses if it is not exact;
        ``"sampler"`` trains a sampler for the question; ``"bp"`` is loopy belief propagation, a
        first estimate without an error bar.
    num_samples : samples to draw, if it is sampled (10,000, or 1,000 for each row of a table).
    check_samples : samples of the second opinion that a sampled answer is held against (4,000);
        more see smaller missing parts, and with none there is no check.
    target_stderr : a sampler that is trained for the question is trained until the samples' log Z
        and probabilities have this standard error (0.01), or as long as it is of use.
    do : variables that are set from outside (Pearl's do-operator): names to labels or indices. What
        causes them is not learned from it. For directed models.
    likelihood : uncertain observations: how likely what was seen is at each state of a variable,
        as ``{"rain": {"yes": 0.9, "no": 0.2}}``, or numbers in the order of the states. Log Z is
        then the log of their mean likelihood.
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds that may be used, from the call on: reading a file counts.
    seed : of a sampler's randomness.
    device : where models and samplers are put first, such as ``"cuda"``: samplers are trained and
        asked there. Exact tables are computed on the CPU, and samples are judged there. By default,
        where the model is.
    progress : whether to show bars while it takes long; by default in a terminal and in a notebook.
        A function is called with the fraction done during long exact work.
    watch : called after every update of training.

    Returns
    -------
    An :class:`~deltaai.trust.answer.Answer`; for a ``DataFrame`` another one, a row for each of
    its rows, with probabilities, log Z, status, ESS and k-hat; for a list a
    :class:`~deltaai.answering.table_answer.TableAnswer`, which holds the same.

    Raises
    ------
    NotAffordableError
        If no method, or not the one asked for, is within the limits.
    ImpossibleEvidenceError
        If no state agrees with the evidence.
    """
    budget = Budget.of(memory_limit, time_limit)
    is_table = evidence is not None and not isinstance(evidence, Mapping)
    with reporting(progress, watch, "answering") as reports:
        question = resolve(
            source,
            evidence,
            of,
            budget=budget,
            method=method,
            num_samples=num_samples,
            check_samples=check_samples,
            target_stderr=target_stderr,
            do=do,
            likelihood=likelihood,
            seed=seed,
            device=device,
            table=TableChoices() if is_table else None,
        )
        if not is_table:
            return answer_case(question, reports)
        table = answer_table(question, reports)
        return table.to_frame(evidence.index) if is_frame(evidence) else table


def answer_case(question: Question, reports: Reports) -> Answer:
    """Answer a question about one case, and tell those who listen how far it is."""
    budget, method, progress = question.budget, question.method, reports.fraction
    source, model, observed = question.source, question.model, question.observed
    joints = joints_of(question.asked)
    planned = None
    if isinstance(source, Sampler):
        if method not in {"auto", "sampler"}:
            raise ConfigError(
                Setting("method"), f" is {method!r}, but a sampler was given: give its model"
            )
        answer = answer_given(
            source,
            observed,
            question.num_samples,
            generator_of(question.seed),
            check_samples=question.check_samples,
            joints=joints,
            budget=budget,
        )
    elif method == "bp":
        refuse_joints(question.asked, "loopy belief propagation", "leave method out")
        refuse_real(model)
        watching = budget.watching("belief propagation", progress)
        with budget.watched("belief propagation"):
            answer = _first_estimate(Remainder.given(model, observed), watching)
    else:
        search_seconds = 0 if method == "sampler" else SEARCH_SECONDS
        planned = plan_given(budget, model, observed, search_seconds)
        if method == "exact" and not planned.is_exact:
            raise _refused(planned)
        if planned.method == "cannot":
            raise NotAffordableError(planned.reason)
        if planned.is_exact and method != "sampler":
            watching = budget.watching("the exact answer", progress)
            with budget.watched("the exact answer"):
                answer = answer_exactly(planned, watching)
        elif not model.is_discrete:
            answer = _sampled_real(question, planned, reports)
        else:
            with budget.watched("training"):
                reduction = planned.reduction or zeros_propagated(model, observed)
            answer = _sampled(question, reduction, planned, joints, reports)
        if answer.status == "exact":
            with budget.watched("the joint marginals"):
                answer = with_joints(answer, exact_joints(planned, joints))
    seconds = time.perf_counter() - question.started
    return finished(answer, model, question.asked, planned, seconds, question.notes)


def _refused(planned: Plan) -> NotAffordableError:
    is_known = not_gaussian(planned.remainder.reduced) is None
    is_known |= planned.remainder.reduced.is_discrete
    if is_known and planned.predicted_bytes > planned.memory_limit:
        return MemoryLimitError(planned.width, planned.predicted_bytes, planned.memory_limit)
    reasons = [option.reason for option in planned.options if option.method != "amortised"]
    return NotAffordableError("; ".join(dict.fromkeys(reasons)))


def _first_estimate(
    asked: FactorGraph | Remainder,
    progress: Fraction | None,
    doubts: tuple[str, ...] = (),
    upper: float | None = None,
) -> Answer:
    """What loopy belief propagation says: a number without an error bar, which nothing checks."""
    start = time.perf_counter()
    found = loopy_belief_propagation(asked, progress=progress)
    if not found.is_converged:
        doubts += (
            f"the messages did not settle in {found.num_iterations} iterations (last change "
            f"{found.residual:.2g}): use another method",
        )
    quality = Quality(
        status="untrusted" if doubts else "unchecked",
        method="loopy belief propagation",
        seconds=time.perf_counter() - start,
        doubts=doubts,
    )
    marginals = found.marginals()
    unknown = {name: np.full(len(row), math.nan) for name, row in marginals.items()}
    bracket = None if upper is None else (-math.inf, upper)
    partition = Estimate(found.log_partition, math.nan, None, bracket, **vars(quality))
    return Answer(Marginals(marginals, quality, unknown), partition)


def _sampled_real(question: Question, planned: Plan, reports: Reports) -> Answer:
    """Answer by a sampler that is trained for what evidence leaves of a model with real variables.

    There are no zeros to propagate and no bound: see :func:`_sampled` for models of states.
    """
    refuse_joints(question.asked, "a sampler of real variables", "ask for them one by one")
    model, budget = planned.remainder.reduced, question.budget
    if model.num_variables == 0:
        raise NotAffordableError("all variables are observed: ask the model's log_score")
    needed = bytes_of_samples(question.num_samples, model.num_variables)
    budget.refuse(f"{question.num_samples} samples", needed, "ask for fewer")
    sampler = fit(
        model,
        seed=question.seed,
        progress=False,
        watch=reports.training,
        memory_limit=budget.memory,
        time_limit=budget.leaving(_RESERVED_SHARE, _RESERVED_SECONDS),
    )
    hand_back()
    answer = sampler.answer(
        {},
        question.num_samples,
        generator_of(question.seed),
        check_samples=question.check_samples,
        budget=budget,
    )
    return with_observed(answer, question.model, question.observed)


def _sampled(
    question: Question,
    reduction: Reduction,
    planned: Plan,
    joints: Sequence[tuple[str, ...]],
    reports: Reports,
) -> Answer:
    """Answer by a sampler that is trained for what evidence and zeros leave of the model."""
    start, budget = time.perf_counter(), question.budget
    model = reduction.model
    if model.num_variables == 0:
        return decided(reduction)
    if planned.method != "amortised":  # else the plan has looked at what training takes
        with budget.watched("training"):
            refuse_training(model, planned.memory_limit)
    needed = bytes_of_samples(question.num_samples, model.num_variables)
    budget.refuse(f"{question.num_samples} samples", needed, "ask for fewer")
    smoothing = suitable_smoothing(model)
    # Where zeros are floored, weights of what is trained on are not those of the answer.
    enough: dict[str, Any] = {"target_ess": question.target_ess} if smoothing is None else {}
    sampler = fit(
        model,
        smoothing=smoothing,
        seed=question.seed,
        progress=False,
        watch=reports.training,
        memory_limit=budget.memory,
        time_limit=budget.leaving(_RESERVED_SHARE, _RESERVED_SECONDS),
        **enough,
    )
    order = sampler.orders.graph.order
    upper = upper_bound(model, order, budget.part(_BOUND_SHARE), reports.fraction)
    hand_back()
    left = {names: tuple(n for n in names if n not in reduction.fixed) for names in joints}
    try:
        answer = sampler.answer(
            {},
            question.num_samples,
            generator_of(question.seed),
            upper=upper,
            check_samples=question.check_samples,
            joints=[some for some in left.values() if some],
            budget=budget,
        )
    except WeightError:  # no sample is possible, so there is nothing to weigh
        answer = _first_estimate(model, reports.fraction, (_NO_SAMPLE,), upper)
    whole = expanded(answer, reduction, time.perf_counter() - start)
    return with_joints(whole, *expanded_joints(answer.marginals, reduction, left))


def upper_bound(
    model: FactorGraph, order: Sequence[int], budget: Budget, progress: Fraction | None
) -> float | None:
    """An upper bound on log Z, or none if not even the smallest tables fit, or in no time."""
    if budget.is_over:
        return None
    try:
        with budget.watched("the bound"):
            bound = mini_bucket_bound(
                model,
                order=order,
                memory_limit=budget.memory,
                progress=budget.watching("the bound", progress),
                **_BOUND,
            )
    except (ConfigError, NotAffordableError):
        return None
    return bound.upper
