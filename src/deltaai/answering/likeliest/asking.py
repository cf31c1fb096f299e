"""``most_likely``: the most likely state given evidence, by the best affordable way."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.answering.exact_answers import most_likely_as_planned
from deltaai.answering.likeliest.search import Found, is_met, search
from deltaai.answering.likeliest.toulbar2 import solved
from deltaai.answering.planning import SEARCH_SECONDS, Plan, plan_given
from deltaai.answering.questions import supposed
from deltaai.arguments import checked_choice, checked_seed
from deltaai.budget import Budget
from deltaai.display import Card, Shown, listing
from deltaai.errors import ConfigError, NotAffordableError
from deltaai.exact import MostLikely
from deltaai.io import as_model
from deltaai.models import Evidence, FactorGraph, Likelihood, zeros_propagated
from deltaai.progress import Fraction, Reports, reporting

MAP_METHODS = ("auto", "exact", "search", "toulbar2")


@dataclass(frozen=True, eq=False, repr=False)
class BestState(Shown):
    """A most likely state, or the best that was found, and how far it may be from the best.

    Parameters
    ----------
    labels : the state of each variable by its label, observed ones included.
    state : the same as a row of numbers.
    log_score : log of the unnormalised probability of the state.
    upper : no state's log score exceeds this.
    status : ``"exact"`` if it is certain that none is better by 1e-5 nats, ``"bounded"`` if none is
        better than ``upper``, ``"unchecked"`` if nothing is known of that.
    method : how it was found.
    seconds : time it took.
    """

    labels: dict[str, str | float]
    state: Num[Tensor, "var"]
    log_score: float
    upper: float
    status: Literal["exact", "bounded", "unchecked"]
    method: str
    seconds: float = field(default=0.0)

    def _card(self) -> Card:
        rows = [("log score", f"{self.log_score:.9g}")]
        if self.status != "exact":
            rows.append(("at most", f"{self.upper:.9g}"))
        rows.append(("state", listing(f"{name}={state}" for name, state in self.labels.items())))
        return Card(f"Most likely state by {self.method}: {self.status}", tuple(rows))


def most_likely(
    model: FactorGraph | str | Path,
    evidence: Evidence | None = None,
    *,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    method: str = "auto",
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    progress: bool | Fraction | None = None,
) -> BestState:
    """Find the most likely joint state given evidence, and say how certain that is.

    Parameters
    ----------
    model : the target, or the path of a file with one.
    evidence : what was observed: names to labels or state indices.
    do, likelihood : variables that are set from outside, and uncertain observations, as
        :func:`~deltaai.answering.asking.query` has them.
    method : ``"auto"`` is exact where tables fit and searches where they do not; ``"exact"``
        refuses instead; ``"search"`` draws from cold mini-bucket messages and moves on from there,
        with an upper bound; ``"toulbar2"`` proves that nothing is better if it has the time (needs
        ``deltaai[toulbar2]``).
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds that may be used; a search takes a minute at most in any case.
    seed : of the search.
    progress : whether to show a bar while it takes long.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = most_likely(zoo.sprinkler(), {"wet_grass": "yes"})
    >>> found.status, found.labels["rain"], found.labels["sprinkler"]
    ('exact', 'yes', 'no')
    >>> torus = zoo.ising_torus(side=6, sigma=1.0, seed=0)
    >>> found, exact = most_likely(torus, method="search"), most_likely(torus)
    >>> abs(found.log_score - exact.log_score) < 1e-9 <= found.upper - found.log_score + 1e-9
    True
    """
    checked_choice("method", method, MAP_METHODS)
    budget, seed = Budget.of(memory_limit, time_limit), checked_seed(seed)
    with budget.watched(f"the model in {model}" if isinstance(model, str | Path) else "it"):
        found = as_model(model)
    if do is not None or likelihood is not None:
        other, evidence = supposed(found, evidence, do, likelihood, is_table=False)
        assert isinstance(other, FactorGraph)  # as it was
        found = other
    with reporting(progress, None, "searching") as reports:
        observed = found.resolve_evidence(evidence)
        return best_state_given(found, observed, budget, reports, method=method, seed=seed)


def best_state_given(
    model: FactorGraph,
    observed: Mapping[int, Any],
    budget: Budget,
    reports: Reports,
    *,
    method: str = "auto",
    seed: int = 0,
    planned: Plan | None = None,
) -> BestState:
    """Do the same for what is observed by numbers, perhaps with a plan that was made for it."""
    begun = time.perf_counter()
    if method in {"auto", "exact"}:
        if planned is None:
            planned = plan_given(budget, model, observed, SEARCH_SECONDS)
        if planned.is_exact:
            watching = budget.watching("the most likely state", reports.fraction)
            with budget.watched("the most likely state"):
                best = most_likely_as_planned(planned, watching)
            seconds = time.perf_counter() - begun
            return BestState(*best, best.log_score, "exact", "elimination", seconds)
        if method == "exact":
            raise NotAffordableError(f"{planned.reason}: choose method 'search'")
    if not model.is_discrete:
        raise ConfigError(
            "a most likely state of real variables is found for Gaussian models alone, exactly"
        )
    with budget.watched("the zeros"):
        reduction = zeros_propagated(model, observed)
    inner = reduction.model.to("cpu", torch.float64)
    if inner.num_variables == 0:
        found = Found(torch.zeros(0, dtype=torch.long, device="cpu"), 0.0, 0.0)
    elif method == "toulbar2":
        found = solved(inner, budget)
    else:
        generator = torch.Generator().manual_seed(seed)
        watching = budget.watching("a most likely state", reports.fraction)
        found = search(inner, budget, generator, watching)
    (full,) = reduction.expand(found.state[None])
    best = MostLikely.of(model, full, found.log_score + reduction.log_scale)
    upper = found.upper + reduction.log_scale
    status: Literal["exact", "bounded", "unchecked"] = "bounded"
    if is_met(best.log_score, upper):
        status, upper = "exact", best.log_score
    elif upper == math.inf:
        status = "unchecked"
    how = "toulbar2" if method == "toulbar2" else "search from cold messages"
    return BestState(*best, upper, status, how, time.perf_counter() - begun)
