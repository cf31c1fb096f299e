"""Questions that are several questions: conditional tables, what to observe next, conflicts.

Each asks a table of cases and puts together what comes back, so they are exact where rows are, and
sampled, with a status, where rows are sampled. With e the evidence, t a state of the target:

    p(target | given = g, e)      a row for each joint state g
    I(T; X | e) = Σ_t p(t | e) KL(p(X | t, e), p(X | e))      a row for each t tells it of all X
    conflict(e) = Σ_i log p(e_i) - log p(e)      rows for nothing, each finding, all, all but one
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltaai.answering.questions import source_within, supposed
from deltaai.answering.table_answer import TableAnswer
from deltaai.answering.table_query import query_table
from deltaai.arguments import checked_items
from deltaai.budget import Budget
from deltaai.display import Card, Shown
from deltaai.errors import (
    EvidenceError,
    ImpossibleEvidenceError,
    NotAffordableError,
    TimeLimitError,
)
from deltaai.fitting import Sampler
from deltaai.models import Evidence, FactorGraph, Likelihood

Source = FactorGraph | Sampler | str | Path

_MOST_CASES = 2**12  # joint states of what is given
_FROM_BEST = ("exact", "bounded", "estimated", "unchecked", "untrusted")


@dataclass(frozen=True, eq=False, repr=False)
class Conditional(Shown):
    """The table p(target | given, evidence).

    Parameters
    ----------
    target : the variable it tells of.
    given : the variables it is conditioned on.
    table : probabilities, one axis a variable, the target's last; not numbers where a state of what
        is given is impossible.
    status : the worst of its rows.
    answer : the rows, with errors and status of each, the last of the given changing fastest.
    labels : the states of what is given in each row.
    """

    target: str
    given: tuple[str, ...]
    table: np.ndarray
    status: str
    answer: TableAnswer
    labels: tuple[tuple[str, ...], ...]

    def _card(self) -> Card:
        names, states = self.given, self.answer.columns
        rows = []
        for label, row in zip(self.labels, self.answer.probabilities.tolist(), strict=True):
            case = ", ".join(f"{name}={state}" for name, state in zip(names, label, strict=True))
            pairs = zip(states, row, strict=True)
            rows.append((case, ", ".join(f"{state}: {value:.4g}" for state, value in pairs)))
        given = ", ".join(self.given)
        doubts = tuple(dict.fromkeys(filter(None, self.answer.doubts)))
        return Card(f"P({self.target} | {given}): {self.status}", tuple(rows), doubts)


@dataclass(frozen=True, eq=False, repr=False)
class Informative(Shown):
    """How much each variable would tell about a target, the most telling first.

    Parameters
    ----------
    target : what is to be known.
    entropy : how uncertain it is given the evidence, in nats.
    information : of each variable, by how much its observation would lower that on average.
    status : the worst of the rows behind it; of samples, small figures are noise.
    doubts : why it is not to be trusted.
    """

    target: str
    entropy: float
    information: dict[str, float]
    status: str
    doubts: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, float, float]]:
        """Name, information in nats, and as a share of the entropy."""
        whole = self.entropy if self.entropy > 0 else math.inf
        return [(name, value, value / whole) for name, value in self.information.items()]

    def _card(self) -> Card:
        rows = [("entropy", f"{self.entropy:.4g} nats")]
        rows += [(name, f"{value:.4g} nats, {share:.1%}") for name, value, share in self.rows()]
        return Card(f"What tells about {self.target}: {self.status}", tuple(rows), self.doubts)


@dataclass(frozen=True, eq=False, repr=False)
class Conflict(Shown):
    """Whether findings fit together: above 0 they are less likely jointly than each alone.

    Parameters
    ----------
    value : the sum of the log-probabilities of each finding less that of all, in nats.
    findings : of each, its log-probability alone and given all others: the one that falls most is
        the one that does not fit.
    status : the worst of the rows behind it.
    doubts : why it is not to be trusted.
    """

    value: float
    findings: dict[str, tuple[float, float]]
    status: str
    doubts: tuple[str, ...] = ()

    def _card(self) -> Card:
        rows = [
            (name, f"P alone {math.exp(alone):.4g}, given the others {math.exp(others):.4g}")
            for name, (alone, others) in self.findings.items()
        ]
        said = "they do not fit together" if self.value > 0 else "they support each other"
        title = f"Conflict of evidence {self.value:.4g} nats, {said}: {self.status}"
        return Card(title, tuple(rows), self.doubts)


def conditional(
    source: Source,
    target: str,
    given: Sequence[str],
    evidence: Evidence | None = None,
    *,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    **settings: Any,  # noqa: ANN401
) -> Conditional:
    """The conditional table of a variable given all states of some others, and evidence.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with either.
    target : the variable to tell of.
    given : the variables to condition on; at least one.
    evidence : what was observed besides.
    do, likelihood : as :func:`~deltaai.answering.asking.query` has them.
    memory_limit, time_limit : what may be used.
    settings : what else :func:`~deltaai.answering.table_query.query_table` takes.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = conditional(zoo.sprinkler(), "rain", ["sprinkler"], {"wet_grass": "yes"})
    >>> found.table.round(3)
    array([[0.  , 1.  ],
           [0.68, 0.32]])
    """
    asked = _Asked.of(source, evidence, do, likelihood, memory_limit, time_limit, settings)
    names = [asked.state_name(name) for name in _listed("given", given)]
    asked.refuse_twice([asked.state_name(target), *names])
    sizes = [asked.num_states(name) for name in names]
    if math.prod(sizes) > _MOST_CASES:
        raise NotAffordableError(
            f"{', '.join(names)} have {math.prod(sizes):,} joint states, and {_MOST_CASES:,} are "
            "the most: give fewer variables"
        )
    indices = list(itertools.product(*map(range, sizes)))
    rows = [dict(zip(names, map(_index, each), strict=True)) for each in indices]
    answer = asked.answer(rows, [target])
    if all(status == "impossible" for status in answer.status):
        raise ImpossibleEvidenceError("the evidence has probability zero under the model")
    states = [asked.model.variables[asked.model.index(name)].states for name in names]
    labels = tuple(
        tuple(some[place] for some, place in zip(states, each, strict=True)) for each in indices
    )
    table = answer.probabilities.reshape(*sizes, -1)
    return Conditional(target, tuple(names), table, _worst(answer), answer, labels)


def informative(
    source: Source,
    target: str,
    evidence: Evidence | None = None,
    among: Sequence[str] | None = None,
    *,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    **settings: Any,  # noqa: ANN401
) -> Informative:
    """Rank variables by their mutual information with a target: what to observe next.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with either.
    target : the variable that is to be known; it has states.
    evidence : what was observed.
    among : the variables that could be observed; by default all others with states.
    do, likelihood : as :func:`~deltaai.answering.asking.query` has them.
    memory_limit, time_limit : what may be used.
    settings : what else :func:`~deltaai.answering.table_query.query_table` takes.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = informative(zoo.sprinkler(), "rain", {"wet_grass": "yes"})
    >>> [(name, round(value, 3)) for name, value in found.information.items()]
    [('sprinkler', 0.334), ('cloudy', 0.265)]
    """
    asked = _Asked.of(source, evidence, do, likelihood, memory_limit, time_limit, settings)
    target = asked.state_name(target)
    asked.refuse_observed(target)
    if among is None:
        names = [
            variable.name
            for number, variable in enumerate(asked.model.variables)
            if not variable.is_real and number not in asked.observed and variable.name != target
        ]
    else:
        names = [asked.state_name(name) for name in _listed("among", among)]
        asked.refuse_twice([target, *names])
        for name in names:
            asked.refuse_observed(name)
    rows = [{target: _index(state)} for state in range(asked.num_states(target))]
    answer = asked.answer(rows, names or [target])
    log_weights = _log_partitions(answer)
    if not np.isfinite(log_weights).any():
        raise ImpossibleEvidenceError("the evidence has probability zero under the model")
    share = np.exp(log_weights - log_weights.max())
    share /= share.sum()
    found = {}
    if names:
        sizes = [asked.num_states(name) for name in names]
        parts = np.split(np.nan_to_num(answer.probabilities), np.cumsum(sizes)[:-1], axis=1)
        found = {name: _shared(share, part) for name, part in zip(names, parts, strict=True)}
    ranked = dict(sorted(found.items(), key=lambda pair: -pair[1]))
    return Informative(target, _entropy(share), ranked, _worst(answer), _doubts(answer))


def conflict(
    source: Source,
    evidence: Evidence,
    *,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    **settings: Any,  # noqa: ANN401
) -> Conflict:
    """Whether findings fit together, and which of them does not.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with either.
    evidence : the findings; at least two.
    do, likelihood : as :func:`~deltaai.answering.asking.query` has them.
    memory_limit, time_limit : what may be used.
    settings : what else :func:`~deltaai.answering.table_query.query_table` takes.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = conflict(zoo.sprinkler(), {"rain": "no", "sprinkler": "no"})
    >>> round(found.value, 3)  # one of them is mostly there
    0.188
    """
    asked = _Asked.of(source, evidence, do, likelihood, memory_limit, time_limit, settings)
    findings, asked.observed = asked.model.named_evidence(asked.observed), {}
    if len(findings) < 2:
        raise EvidenceError("a conflict is one of two findings or more: give more evidence")
    alone = [{name: value} for name, value in findings.items()]
    others = [{n: value for n, value in findings.items() if n != name} for name in findings]
    answer = asked.answer([{}, findings, *alone, *others], [next(iter(findings))])
    whole, joint, *rest = _log_partitions(answer).tolist()
    if joint == -math.inf:
        raise ImpossibleEvidenceError(
            "the evidence has probability zero under the model: the findings exclude each other"
        )
    single = [value - whole for value in rest[: len(findings)]]
    given = [joint - value for value in rest[len(findings) :]]
    named = dict(zip(findings, zip(single, given, strict=True), strict=True))
    ranked = dict(sorted(named.items(), key=lambda pair: pair[1][1] - pair[1][0]))
    value = sum(single) - (joint - whole)
    return Conflict(value, ranked, _worst(answer), _doubts(answer))


# -- what they share -------------------------------------------------------------------------------


@dataclass(eq=False)
class _Asked:
    """The model under its suppositions, and what was observed of it."""

    source: FactorGraph | Sampler
    observed: dict[int, Any]
    budget: Budget
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        source: Source,
        evidence: Evidence | None,
        do: Evidence | None,
        likelihood: Likelihood | None,
        memory_limit: int | str | None,
        time_limit: float | int | None,
        settings: Mapping[str, Any],
    ) -> _Asked:
        budget = Budget.of(memory_limit, time_limit)
        found = source_within(source, budget)
        if do is not None or likelihood is not None:
            found, _ = supposed(found, None, do, likelihood, is_table=True)
        model = found.model if isinstance(found, Sampler) else found
        return cls(found, model.resolve_evidence(evidence), budget, settings)

    @property
    def model(self) -> FactorGraph:
        return self.source.model if isinstance(self.source, Sampler) else self.source

    def state_name(self, name: str) -> str:
        """The name of a variable that has states."""
        variable = self.model.variables[self.model.index(name)]
        if variable.is_real:
            raise EvidenceError(
                f"{variable.name!r} is real: this is asked of variables with states"
            )
        return variable.name

    def num_states(self, name: str) -> int:
        return self.model.variables[self.model.index(name)].num_states

    def refuse_twice(self, names: Sequence[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise EvidenceError(f"{name!r} is named twice: name each variable once")
            self.refuse_observed(name)

    def refuse_observed(self, name: str) -> None:
        if self.model.index(name) in self.observed:
            raise EvidenceError(f"{name!r} is observed, so there is nothing left to know of it")

    def answer(self, rows: Sequence[Mapping[str, Any]], of: Sequence[str]) -> TableAnswer:
        """Ask a row for each of these, and what was observed."""
        base = self.model.named_evidence(self.observed)
        seconds = self.budget.seconds_left
        if seconds <= 0:
            raise TimeLimitError("the answer", self.budget.time_limit or 0.0)
        return query_table(
            self.source,
            [{**base, **row} for row in rows],
            of=list(of),
            memory_limit=self.budget.memory,
            time_limit=None if seconds == math.inf else seconds,
            **self.settings,
        )


def _listed(name: str, names: Sequence[str]) -> list[str]:
    listed = checked_items(name, names, "names", EvidenceError)
    if not listed:
        raise EvidenceError(f"{name} names no variable: name one at least")
    return [str(each) for each in listed]


def _index(state: int) -> str:
    return f"#{state}"


def _log_partitions(answer: TableAnswer) -> np.ndarray:
    """Log Z of each row, -inf where it is impossible; a row that was not reached ends all."""
    is_impossible = np.array([status == "impossible" for status in answer.status])
    is_missing = np.isnan(answer.log_partition) & ~is_impossible
    if is_missing.any():
        doubt = answer.doubts[int(is_missing.argmax())]
        raise NotAffordableError(
            f"{int(is_missing.sum())} of the {len(answer)} cases behind this were not answered: "
            f"{doubt or 'raise the limits'}"
        )
    return np.where(is_impossible, -np.inf, answer.log_partition)


def _shared(share: np.ndarray, rows: np.ndarray) -> float:
    """Mutual information of two variables: probabilities of one, and rows of the other given it."""
    mean = share @ rows
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(rows > 0, rows * np.log(rows / mean), 0.0)
    return max(float(share @ terms.sum(1)), 0.0)


def _entropy(share: np.ndarray) -> float:
    some = share[share > 0]
    return float(-(some * np.log(some)).sum()) + 0.0


def _worst(answer: TableAnswer) -> str:
    """The worst status of the rows that are possible."""
    places = [_FROM_BEST.index(status) for status in answer.status if status != "impossible"]
    return _FROM_BEST[max(places, default=0)]


def _doubts(answer: TableAnswer) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, answer.doubts)))
