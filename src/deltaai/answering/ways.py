"""The ways to an answer that a plan looks at, with what each takes and all that it needs.

From the cheapest to plan to the dearest: all tables of a model at once (:func:`whole`), the same
when zeros have been propagated (:func:`without_zeros`), with some variables fixed at a time
(:func:`in_parts`), and by a sampler (:func:`amortised`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from deltaai.errors import format_bytes, format_seconds
from deltaai.exact import Cutset, ExactCost, cutset_of, exact_cost
from deltaai.fitting import TrainingCost
from deltaai.graphs import Elimination, best_elimination, eliminate
from deltaai.models import FactorGraph, Reduction
from deltaai.watch import at_most

Method = Literal["exact", "exact after evidence", "exact in parts", "amortised", "cannot"]

# Elimination: seconds for an entry of a table, and for a variable; more for one of a part, which
# has an order of its own to be found and zeros to be propagated.
_SECONDS_PER_ENTRY, _SECONDS_PER_VARIABLE, _SECONDS_PER_VARIABLE_OF_PART = 4e-8, 3e-4, 1e-3
# Training that is cut to less than this share of its time is not worth beginning.
LEAST_TRAINING = 0.1
# Seconds that an answer in parts may take if there is no limit; and the share of a limit that the
# search for what to fix may take.
_MOST_SECONDS_IN_PARTS = 600.0
# Random orders that are tried at most, seconds for a vertex or an edge in each, and the share of a
# limit of time that they may take.
_MOST_ORDERS, _SECONDS_PER_ORDER, _ORDERS_SHARE = 64, 1.5e-5, 0.1
_SEARCH_SHARE = 0.25
# Tables of so few entries (log2) in all are filled before a better order is found.
_FEW = 13
_GREEDY: WeakKeyDictionary[FactorGraph, Elimination] = WeakKeyDictionary()
_LATEST_SHARE = 0.5  # of the time that is left, however slow the machine is


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
class Limits:
    """Bytes and, if there is a limit, seconds that an answer may take."""

    memory: int
    seconds: float | int | None

    def allow(self, num_bytes: int, seconds: float) -> bool:
        """Whether so much is within both."""
        return num_bytes <= self.memory and (self.seconds is None or seconds <= self.seconds)


@dataclass(frozen=True)
class Way:
    """A way to an answer, with all that it takes to follow it."""

    option: Option
    cost: ExactCost
    elimination: Elimination
    reduction: Reduction | None = None
    cutset: Cutset | None = None


def exact_seconds(cost: ExactCost, num_variables: int) -> float:
    """Time of an exact answer, roughly."""
    return _SECONDS_PER_ENTRY * cost.total_entries + _SECONDS_PER_VARIABLE * num_variables


def whole(
    method: Method,
    model: FactorGraph,
    elimination: Elimination,
    limits: Limits,
    reduction: Reduction | None = None,
) -> Way:
    """All tables of a model at once."""
    cost = exact_cost(elimination, model.num_states.tolist())
    seconds = exact_seconds(cost, model.num_variables)
    words = needs("an exact answer", cost.peak_bytes, seconds, limits)
    given = " after the evidence" if method == "exact after evidence" else ""
    is_affordable = limits.allow(cost.peak_bytes, seconds)
    reason = f"{words} (width {cost.width}{given})"
    option = Option(method, cost.peak_bytes, seconds, is_affordable, reason)
    return Way(option, cost, elimination, reduction)


def good_order(model: FactorGraph, limits: Limits) -> Elimination:
    """The best order of as many as a small share of the time allows to try."""
    graph, most = model.markov_graph(), _MOST_ORDERS
    if limits.seconds is not None:
        each = _SECONDS_PER_ORDER * (graph.num_vertices + graph.num_edges + 1)
        most = min(int(_ORDERS_SHARE * limits.seconds / each), most)
    return best_elimination(graph, model.num_states.tolist(), most_tries=most, enough=_FEW)


def before_evidence(model: FactorGraph, limits: Limits) -> Option:
    """What the model would take without its evidence: greedy orders tell well enough.

    They are kept, so that a model that is asked many times is looked at once.
    """
    greedy = _GREEDY.get(model)
    if greedy is None:
        greedy = best_elimination(model.markov_graph(), model.num_states.tolist(), most_tries=0)
        _GREEDY[model] = greedy
    return whole("exact", model, greedy, limits).option


def without_zeros(way: Way, before: FactorGraph, reduction: Reduction, limits: Limits) -> Way:
    """The same way when zeros have been propagated; the order stays if they rule out nothing."""
    model, states = reduction.model, reduction.model.num_states.tolist()
    if not states:
        option = Option(way.option.method, 0, 0.0, True, "evidence and zeros leave one state")
        return Way(option, ExactCost(0, 1, 0, 0), eliminate(model.markov_graph(), ()), reduction)
    if sum(states) < int(before.num_states.sum()):
        elimination = good_order(model, limits)
    else:
        elimination = eliminate(model.markov_graph(), way.elimination.order)
    return whole(way.option.method, model, elimination, limits, reduction)


def in_parts(way: Way, limits: Limits, search_seconds: float | int) -> Way | None:
    """A way that fixes some variables at a time, if one is found that takes bearable time."""
    assert way.reduction is not None
    most_seconds = _MOST_SECONDS_IN_PARTS if limits.seconds is None else limits.seconds
    cutset = None
    with at_most(_LATEST_SHARE):
        cutset = cutset_of(
            way.reduction.model,
            limits.memory,
            most_entries=most_seconds / _SECONDS_PER_ENTRY,
            search_seconds=min(search_seconds, _SEARCH_SHARE * most_seconds),
            elimination=way.elimination,
        )
    if cutset is None:
        return None
    if not cutset.variables:  # the search came upon an order that fits
        return _in_order(way, cutset, limits)
    cost, per_part = cutset.cost, _SECONDS_PER_VARIABLE_OF_PART * len(cutset.order)
    seconds = _SECONDS_PER_ENTRY * cutset.total_entries + cutset.num_states * per_part
    words = needs("an exact answer", cost.peak_bytes, seconds, limits)
    count = len(cutset.variables)
    fixed = f"{count} {'variable' if count == 1 else 'variables'} fixed at a time"
    is_affordable = cost.peak_bytes <= limits.memory and seconds <= most_seconds
    reason = f"{words} (width {cost.width}, {fixed})"
    option = Option("exact in parts", cost.peak_bytes, seconds, is_affordable, reason)
    total = ExactCost(cost.width, cost.largest_table, cutset.total_entries, cost.peak_bytes)
    return Way(option, total, way.elimination, way.reduction, cutset)


def _in_order(way: Way, cutset: Cutset, limits: Limits) -> Way:
    """All tables at once, in the order that came with an empty cutset."""
    assert way.reduction is not None
    model = way.reduction.model
    elimination = eliminate(model.markov_graph(), [model.index(name) for name in cutset.order])
    return whole(way.option.method, model, elimination, limits, way.reduction)


def amortised(cost: TrainingCost, limits: Limits) -> Option:
    """Training a sampler, perhaps for less time than it would like."""
    return Option(
        "amortised",
        cost.peak_bytes,
        cost.seconds,
        limits.allow(cost.peak_bytes, LEAST_TRAINING * cost.seconds),
        needs("training a sampler", cost.peak_bytes, cost.seconds, limits) + _of_messages(cost.ess),
    )


def _of_messages(ess: float | None) -> str:
    """What messages are worth without training, in words, if they were tried.

    >>> _of_messages(None), _of_messages(0.85)
    ('', ' (without training, 85 % of its samples are effective)')
    """
    if ess is None:
        return ""
    share = f"{ess:.0%}" if ess >= 0.01 else f"{ess:.1g}"
    return f" (without training, {share.replace('%', ' %')} of its samples are effective)"


def needs(what: str, num_bytes: int, seconds: float, limits: Limits) -> str:
    """What something takes of what is allowed, in words."""
    time = f" and {format_seconds(seconds)}"
    if limits.seconds is not None:
        time += f" of {format_seconds(limits.seconds)}"
    memory = f"{format_bytes(num_bytes)} of the {format_bytes(limits.memory)} allowed"
    return f"{what} needs about {memory}{time}"
