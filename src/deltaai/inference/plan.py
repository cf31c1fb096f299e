"""Before running anything: what each way to an answer would cost, and which one to take.

Memory is predicted from sizes of tables and of batches, and is what a limit is compared with. Time
is predicted from the same sizes, for one core of a machine of today: right within a factor of three
or so, which is enough to tell seconds from hours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from deltaai.errors import format_bytes, format_seconds
from deltaai.exact import ExactCost, default_memory_limit, exact_cost, without_fixed
from deltaai.graphs import Elimination, best_elimination
from deltaai.inference.defaults import TrainingCost, training_cost
from deltaai.models import Evidence, FactorGraph

Method = Literal["exact", "exact after evidence", "amortised", "cannot"]

# Elimination: seconds for an entry of a table, and for a variable.
SECONDS_PER_ENTRY, _SECONDS_PER_VARIABLE = 4e-8, 3e-4
# Training that is cut to less than this share of its time is not worth beginning.
LEAST_TRAINING = 0.1


@dataclass(frozen=True)
class Option:
    """One way to an answer.

    Parameters
    ----------
    method : its name.
    predicted_bytes : memory at the worst moment.
    predicted_seconds : time, roughly.
    is_affordable : whether both are within the limits.
    reason : in words, with the figures.
    """

    method: Method
    predicted_bytes: int
    predicted_seconds: float
    is_affordable: bool
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a model would cost and which method is recommended.

    Parameters
    ----------
    method : ``"exact"`` if the tables fit, ``"exact after evidence"`` if they fit because of it,
        ``"amortised"`` if a sampler has to be trained, ``"cannot"`` if that does not fit either.
    reason : why, in words, with the figures.
    options : every way to an answer, with its cost.
    num_variables : variables of the model.
    num_observed : how many of them the evidence fixes.
    width : largest number of neighbours at elimination, in the best order found.
    largest_table : entries of the largest table.
    total_entries : entries of all tables; time is proportional to it.
    predicted_bytes : peak memory of an exact answer.
    predicted_seconds : time of the recommended method, or of an exact answer if there is none.
    memory_limit : bytes that may be used.
    time_limit : seconds that may be used, if there is a limit.
    elimination : the order behind the figures, over the variables still free.
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

    @property
    def is_exact(self) -> bool:
        """Whether an exact answer is affordable."""
        return self.method in {"exact", "exact after evidence"}

    def option(self, method: Method) -> Option | None:
        """One of the options, if it was looked at."""
        return next((option for option in self.options if option.method == method), None)


@dataclass(frozen=True)
class _Limits:
    memory: int
    seconds: float | int | None

    def allow(self, num_bytes: int, seconds: float) -> bool:
        return num_bytes <= self.memory and (self.seconds is None or seconds <= self.seconds)


def plan(
    model: FactorGraph,
    evidence: Evidence | None = None,
    *,
    memory_limit: int | None = None,
    time_limit: float | int | None = None,
) -> Plan:
    """Predict what an answer costs, one way and another, and recommend one.

    Parameters
    ----------
    model : the target.
    evidence : what was observed: names to labels or state indices.
    memory_limit : bytes an answer may use (default: half of what is free).
    time_limit : seconds an answer may take.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> plan(zoo.ising_lattice(side=6, sigma=0.2, seed=0), memory_limit=10**9).method
    'exact'
    >>> plan(zoo.ising_lattice(side=40, sigma=0.2, seed=0), memory_limit=10**10).method
    'amortised'
    """
    limits = _Limits(default_memory_limit() if memory_limit is None else memory_limit, time_limit)
    observed = model.resolve_evidence(evidence)
    reduced, _ = without_fixed(model, evidence)
    states = reduced.num_states.tolist()
    elimination = best_elimination(reduced.markov_graph(), states)
    cost = exact_cost(elimination, states)
    options = [_exact("exact", cost, reduced.num_variables, limits)]
    if observed:
        whole, _ = without_fixed(model, None)
        sizes = whole.num_states.tolist()
        before = exact_cost(best_elimination(whole.markov_graph(), sizes), sizes)
        after = _exact("exact after evidence", cost, reduced.num_variables, limits)
        options = [_exact("exact", before, whole.num_variables, limits), after]
    if not any(option.is_affordable for option in options) and reduced.num_variables:
        options.append(_amortised(training_cost(reduced), limits))
    chosen = next((option for option in options if option.is_affordable), None)
    return Plan(
        method="cannot" if chosen is None else chosen.method,
        reason=_why_not(options) if chosen is None else _why(chosen, options),
        options=tuple(options),
        num_variables=model.num_variables,
        num_observed=len(observed),
        width=cost.width,
        largest_table=cost.largest_table,
        total_entries=cost.total_entries,
        predicted_bytes=cost.peak_bytes,
        predicted_seconds=(options[0] if chosen is None else chosen).predicted_seconds,
        memory_limit=limits.memory,
        time_limit=time_limit,
        elimination=elimination,
    )


def exact_seconds(cost: ExactCost, num_variables: int) -> float:
    """Time of an exact answer, roughly."""
    return SECONDS_PER_ENTRY * cost.total_entries + _SECONDS_PER_VARIABLE * num_variables


def _exact(method: Method, cost: ExactCost, num_variables: int, limits: _Limits) -> Option:
    seconds = exact_seconds(cost, num_variables)
    needs = _needs("an exact answer", cost.peak_bytes, seconds, limits)
    given = " after the evidence" if method == "exact after evidence" else ""
    return Option(
        method,
        cost.peak_bytes,
        seconds,
        limits.allow(cost.peak_bytes, seconds),
        f"{needs} (width {cost.width}{given})",
    )


def _amortised(cost: TrainingCost, limits: _Limits) -> Option:
    return Option(
        "amortised",
        cost.peak_bytes,
        cost.seconds,
        limits.allow(cost.peak_bytes, LEAST_TRAINING * cost.seconds),
        _needs("training a sampler", cost.peak_bytes, cost.seconds, limits),
    )


def _needs(what: str, num_bytes: int, seconds: float, limits: _Limits) -> str:
    time = f" and {format_seconds(seconds)}"
    if limits.seconds is not None:
        time += f" of {format_seconds(limits.seconds)}"
    memory = f"{format_bytes(num_bytes)} of the {format_bytes(limits.memory)} allowed"
    return f"{what} needs about {memory}{time}"


def _why(chosen: Option, options: list[Option]) -> str:
    if chosen.method == "amortised":
        return f"{options[-2].reason}; {chosen.reason}"
    return chosen.reason


def _why_not(options: list[Option]) -> str:
    reasons = "; ".join(dict.fromkeys(option.reason for option in options))
    return f"{reasons}: raise the limits, or give evidence that cuts the model"
