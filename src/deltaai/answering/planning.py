"""Before running anything: what each way to an answer would cost, and which one to take.

Memory is predicted from sizes of tables and of batches, and is what a limit is compared with. Time
is predicted from the same sizes, for one core of a machine of today: right within a factor of three
or so, which is enough to tell seconds from hours.

Ways (:mod:`deltaai.answering.ways`) are looked at from the cheapest to plan to the dearest, and no
further than the first that is affordable. A plan carries what was found on the way, so that an
answer follows it and searches for nothing again (:mod:`deltaai.answering.exact_answers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from deltaai.answering.real_ways import real_ways
from deltaai.answering.ways import (
    Limits,
    Method,
    Option,
    Way,
    amortised,
    before_evidence,
    good_order,
    in_parts,
    whole,
    without_zeros,
)
from deltaai.arguments import checked_choice, checked_number
from deltaai.budget import Budget
from deltaai.display import Card, Shown, plural, quantity
from deltaai.errors import format_bytes, format_seconds
from deltaai.exact import Cutset, Remainder
from deltaai.fitting import training_cost
from deltaai.graphs import Elimination
from deltaai.io import as_model
from deltaai.models import Evidence, FactorGraph, Reduction, zeros_propagated

_SEARCH_SHARE = 0.25  # of a limit of time that the search may take
# Seconds of work that a plan has in any case, for to say in words what a tiny limit rules out takes
# a moment. Reading that took less is not held against an answer.
_LEAST_WORK = 1.0
SEARCH_SECONDS = 5.0  # for variables to fix, where nothing else makes an exact answer fit


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What a model would cost and which method is recommended.

    Parameters
    ----------
    method : ``"exact"`` if the tables fit, ``"exact after evidence"`` if they fit because of it,
        ``"exact in parts"`` if they fit with some variables fixed at a time, ``"amortised"`` if a
        sampler has to be trained, ``"cannot"`` if that does not fit either.
    reason : why, in words, with the figures.
    options : the ways to an answer that were looked at, with their costs.
    num_variables : variables of the model.
    num_observed : how many of them the evidence fixes.
    width : largest number of neighbours at elimination, in the best order found.
    largest_table : entries of the largest table; of a Gaussian model, of the largest dense block.
    total_entries : entries of all tables; time is proportional to it. Of a Gaussian model they are
        those of the factor of its precision matrix.
    predicted_bytes : peak memory of an exact answer.
    predicted_seconds : time of the recommended method, or of an exact answer if there is none.
    memory_limit : bytes that may be used.
    time_limit : seconds that may be used, if there is a limit.
    elimination : the order behind the figures, over the variables still free.
    remainder : what evidence leaves of the model.
    reduction : the model that is left when evidence and zeros have been propagated, if the method
        needs it; the order is then one of its variables.
    cutset : the variables to fix, if an exact answer comes in parts.
    """

    method: Method
    reason: str
    options: tuple[Option, ...]
    num_variables: int
    num_observed: int
    width: int
    largest_table: int
    total_entries: int
    predicted_bytes: int
    predicted_seconds: float
    memory_limit: int
    time_limit: float | int | None
    elimination: Elimination = field(repr=False)
    remainder: Remainder = field(repr=False, compare=False)
    reduction: Reduction | None = field(default=None, repr=False, compare=False)
    cutset: Cutset | None = field(default=None, repr=False)

    @property
    def is_exact(self) -> bool:
        """Whether an exact answer is affordable."""
        return self.method in {"exact", "exact after evidence", "exact in parts"}

    def rows(self) -> list[tuple[str, str]]:
        """The figures, as names and values to show."""
        limit = format_bytes(self.memory_limit)
        names = ("largest table", "all tables")
        if not self.remainder.reduced.is_discrete:
            names = ("largest block", "factor")
        return [
            ("width", str(self.width)),
            (names[0], f"{quantity(self.largest_table)} entries"),
            (names[1], f"{quantity(self.total_entries)} entries"),
            ("memory", f"{format_bytes(self.predicted_bytes)} (limit {limit})"),
            ("method", self.method),
            ("time", f"about {format_seconds(self.predicted_seconds)}"),
            ("because", self.reason),
        ]

    def _card(self) -> Card:
        given = f", {self.num_observed} observed" if self.num_observed else ""
        title = f"Plan for {plural(self.num_variables, 'variable')}{given}: {self.method}"
        return Card(title, tuple(self.rows()))

    def option(self, method: Method) -> Option | None:
        """One of the options, if it was looked at."""
        checked_choice("method", method, get_args(Method))
        return next((option for option in self.options if option.method == method), None)


def plan(
    model: FactorGraph | str | Path,
    evidence: Evidence | None = None,
    *,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    search_seconds: float | int = SEARCH_SECONDS,
) -> Plan:
    """Predict what an answer costs, one way and another, and recommend one.

    Parameters
    ----------
    model : the target, or the path of a file with one.
    evidence : what was observed: names to labels or state indices, or to numbers.
    memory_limit : bytes an answer may use, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds an answer may take; reading the model and planning are part of it.
    search_seconds : how long, roughly, to search for variables that make an exact answer fit if
        they are fixed, where nothing else makes it; 0 for no search. It is counted in work, so a
        plan is the same on every machine. What messages are worth without training is found out if
        that takes no longer, too.

    Raises
    ------
    ImpossibleEvidenceError
        If no state agrees with the evidence, as far as that is seen without an answer.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> plan(zoo.ising_lattice(side=6, sigma=0.2, seed=0), memory_limit=10**9).method
    'exact'
    >>> plan(zoo.ising_torus(side=6, sigma=0.2, seed=0), memory_limit=40_000).method
    'exact in parts'
    >>> plan(zoo.ising_lattice(side=40, sigma=0.2, seed=0), memory_limit=10**10).method
    'amortised'
    """
    budget = Budget.of(memory_limit, time_limit)
    search_seconds = checked_number("search_seconds", search_seconds, is_zero_allowed=True)
    with budget.watched(f"the model in {model}" if isinstance(model, str | Path) else "it"):
        found = as_model(model)
    return plan_within(budget, found, evidence, search_seconds)


def plan_within(
    budget: Budget,
    model: FactorGraph,
    evidence: Evidence | None = None,
    search_seconds: float | int = SEARCH_SECONDS,
) -> Plan:
    """Plan like :func:`plan`, by a clock that runs already."""
    with budget.watched("the plan", _LEAST_WORK):
        observed = model.resolve_evidence(evidence)
        return _planned(budget, model, observed, search_seconds, may_try=True)


def plan_given(
    budget: Budget,
    model: FactorGraph,
    observed: Mapping[int, int | float],
    search_seconds: float | int = SEARCH_SECONDS,
) -> Plan:
    """Plan like :func:`plan_within`, for what is observed by numbers."""
    with budget.watched("the plan", _LEAST_WORK):
        return _planned(budget, model, observed, search_seconds)


def _planned(
    budget: Budget,
    model: FactorGraph,
    observed: Mapping[int, int | float],
    search_seconds: float | int,
    *,
    may_try: bool = False,
) -> Plan:
    time_limit, seconds = budget.time_limit, budget.time_limit
    if seconds is not None and seconds - budget.seconds_left > max(_LEAST_WORK, seconds / 2):
        seconds = budget.seconds_left  # else as given, so that a plan is the same everywhere
    limits = Limits(budget.memory, seconds)
    if seconds is not None:
        search_seconds = min(search_seconds, _SEARCH_SHARE * seconds)
    left = Remainder.given(model, observed)
    method: Method = "exact after evidence" if observed else "exact"
    if not left.reduced.is_discrete:
        way, options = real_ways(method, left.reduced, limits)
    else:
        tried = search_seconds if may_try else 0.0
        way, options = _ways_of_tables(method, model, left, limits, search_seconds, tried)
    chosen = next((option for option in options if option.is_affordable), None)
    figures = way.option if chosen is None or options[0] is chosen else chosen
    return Plan(
        method="cannot" if chosen is None else chosen.method,
        reason=_why_not(options) if chosen is None else _why(figures, options),
        options=tuple(options),
        num_variables=model.num_variables,
        num_observed=len(observed),
        width=way.cost.width,
        largest_table=way.cost.largest_table,
        total_entries=way.cost.total_entries,
        predicted_bytes=way.cost.peak_bytes,
        predicted_seconds=figures.predicted_seconds,
        memory_limit=limits.memory,
        time_limit=time_limit,
        elimination=way.elimination,
        remainder=left,
        reduction=way.reduction,
        cutset=way.cutset,
    )


def _ways_of_tables(
    method: Method,
    model: FactorGraph,
    left: Remainder,
    limits: Limits,
    search_seconds: float | int,
    tried_seconds: float | int,
) -> tuple[Way, list[Option]]:
    """The way that fits, or the last that was tried, and all that were looked at."""
    observed = left.observed
    way = whole(method, left.reduced, good_order(left.reduced, limits), limits)
    options = [way.option]
    if not model.is_discrete:
        if not way.option.is_affordable:
            options.append(amortised(training_cost(left.reduced, memory=limits.memory), limits))
        return way, options
    if not way.option.is_affordable:
        way = without_zeros(way, left.reduced, zeros_propagated(model, observed), limits)
        options = [way.option]
    elif observed:
        options.insert(0, before_evidence(model, limits))
    if not way.option.is_affordable and search_seconds > 0:
        searched = in_parts(way, limits, search_seconds)
        if searched is not None:
            options.append(searched.option)
            way = searched if searched.option.is_affordable else way
    if not way.option.is_affordable and way.reduction is not None:
        cost = training_cost(way.reduction.model, memory=limits.memory, most_seconds=tried_seconds)
        options.append(amortised(cost, limits))
    return way, options


def _why(chosen: Option, options: list[Option]) -> str:
    if chosen.method == "amortised":
        return f"{options[-2].reason}; {chosen.reason}"
    return chosen.reason


def _why_not(options: list[Option]) -> str:
    reasons = "; ".join(dict.fromkeys(option.reason for option in options))
    return f"{reasons}: raise the limits, or give evidence that cuts the model"
