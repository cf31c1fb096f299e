"""The probability of an event that several variables make, such as ``"lung=yes or tub=yes"``.

An event is read once, into a tree of comparisons, and is then the set of those joint states of the
variables it names in which it holds. Its probability is the sum over them of their joint marginal,
which is exact or sampled as any other. Of sampled ones the errors are added up, for however they
depend on each other, the error of a sum is no more than the sum of the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltaai.answering.asking import query
from deltaai.answering.questions import source_within
from deltaai.budget import Budget
from deltaai.display import Card, Shown
from deltaai.errors import EvidenceError, shown
from deltaai.fitting import Sampler
from deltaai.models import Evidence, FactorGraph, Likelihood
from deltaai.progress import Fraction

_TOKEN = re.compile(r"\s*(\(|\)|!=|=|'[^']*'|\"[^\"]*\"|[^\s()=!'\"]+)")
_MOST_DEPTH = 50
_FORM = "write for example 'rain=yes and (wet=no or not sprinkler=on)'"

Tree = tuple[
    Any, ...
]  # ("or" | "and", first, second), ("not", one), ("is" | "is not", name, state)


@dataclass(frozen=True, repr=False)
class Chance(Shown):
    """The probability of an event, with how far to trust it.

    Parameters
    ----------
    event : as it was written.
    value : its probability.
    stderr : standard error, at most; 0 if it is exact.
    status : of the joint marginal behind it.
    doubts : why it is not to be trusted.
    """

    event: str
    value: float
    stderr: float
    status: str
    doubts: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def _card(self) -> Card:
        spread = f" ± {self.stderr:.2g}" if self.status != "exact" else ""
        rows = (("probability", f"{self.value:.6g}{spread}"),)
        return Card(f"{self.event}: {self.status}", rows, self.doubts)


def probability(
    source: FactorGraph | Sampler | str | Path,
    event: str,
    evidence: Evidence | None = None,
    *,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    method: str = "auto",
    num_samples: int | None = None,
    check_samples: int | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    progress: bool | Fraction | None = None,
) -> Chance:
    """The probability that some variables are as an expression says, given evidence.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with either.
    event : comparisons of a variable with a state, ``name=state`` or ``name!=state``, joined by
        ``and``, ``or``, ``not`` and parentheses. Names and states with spaces stand in quotes.
    evidence : what was observed.
    do, likelihood, method, num_samples, check_samples, memory_limit, time_limit, seed : as
        :func:`~deltaai.answering.asking.query` has them.
    progress : likewise.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> found = probability(zoo.sprinkler(), "rain=yes or sprinkler=yes", {"wet_grass": "yes"})
    >>> found.status, round(float(found), 3)
    ('exact', 1.0)
    """
    if not isinstance(event, str):
        raise EvidenceError(f"the event is {shown(event)}: {_FORM}")
    tree = _Reader(event).read()
    budget = Budget.of(memory_limit, time_limit)
    found = source_within(source, budget)  # reading is part of the time
    model = found.model if isinstance(found, Sampler) else found
    names = tuple(dict.fromkeys(_names(tree, model)))
    holds = _holds(tree, model, names)
    answer = query(
        found,
        evidence,
        of=[names],
        do=do,
        likelihood=likelihood,
        method=method,
        num_samples=num_samples,
        check_samples=check_samples,
        memory_limit=budget.memory,
        time_limit=None if budget.time_limit is None else max(budget.seconds_left, 1e-9),
        seed=seed,
        progress=progress,
    )
    joint, errors = answer.marginals[names], answer.marginals.stderr.get(names)
    value = float(np.clip(joint[holds].sum(), 0.0, 1.0))
    error = 0.0
    if errors is not None and answer.status != "exact":
        error = float(min(errors[holds].sum(), errors[~holds].sum()))
    return Chance(event, value, error, answer.status, answer.doubts)


class _Reader:
    """Reads an expression from left to right: ``or`` binds weakest, ``not`` strongest."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._tokens = text, 0, list[str]()
        self._depth = 0
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._error(f"{shown(text[place:].strip()[:20])} cannot be read")
            self._tokens.append(match.group(1))
            place = match.end()

    def read(self) -> Tree:
        """The whole expression."""
        found = self._any_of()
        if self._at < len(self._tokens):
            raise self._error(f"{self._next()!r} is one too many")
        return found

    def _any_of(self) -> Tree:
        found = self._all_of()
        while self._takes("or"):
            found = ("or", found, self._all_of())
        return found

    def _all_of(self) -> Tree:
        found = self._one()
        while self._takes("and"):
            found = ("and", found, self._one())
        return found

    def _one(self) -> Tree:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error("it is nested too deeply")
        try:
            if self._takes("not"):
                return ("not", self._one())
            if self._takes("("):
                found = self._any_of()
                if not self._takes(")"):
                    raise self._error("a parenthesis is not closed")
                return found
            name = self._word("a variable")
            kind = self._next()
            if kind not in {"=", "!="}:
                raise self._error(f"{name!r} is compared with nothing")
            self._at += 1
            return ("is" if kind == "=" else "is not", name, self._word("a state"))
        finally:
            self._depth -= 1

    def _word(self, what: str) -> str:
        token = self._next()
        if token in {"", "(", ")", "=", "!="}:
            raise self._error(f"{what} is missing" + (f" before {token!r}" if token else ""))
        self._at += 1
        return token[1:-1] if token[0] in "'\"" else token

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _takes(self, word: str) -> bool:
        if self._next().lower() != word:
            return False
        self._at += 1
        return True

    def _error(self, what: str) -> EvidenceError:
        return EvidenceError(f"the event {shown(self._text)}: {what}; {_FORM}")


def _names(tree: Tree, model: FactorGraph) -> Iterator[str]:
    """The variables that an expression compares, as they come."""
    if tree[0] in {"is", "is not"}:
        variable = model.variables[model.index(tree[1])]
        if variable.is_real:
            raise EvidenceError(f"{variable.name!r} is real, and events are of states")
        yield variable.name
        return
    for part in tree[1:]:
        yield from _names(part, model)


def _holds(tree: Tree, model: FactorGraph, names: tuple[str, ...]) -> np.ndarray:
    """In which joint states of the named variables an expression holds."""
    if tree[0] in {"or", "and"}:
        first, second = (_holds(part, model, names) for part in tree[1:])
        both = np.logical_or if tree[0] == "or" else np.logical_and
        return np.asarray(both(first, second))
    if tree[0] == "not":
        return np.asarray(~_holds(tree[1], model, names))
    variables = [model.variables[model.index(name)] for name in names]
    place = names.index(tree[1])
    chosen = np.arange(variables[place].num_states) == variables[place].value_of(tree[2])
    shape = [-1 if other == place else 1 for other in range(len(names))]
    sizes = [variable.num_states for variable in variables]
    found = np.broadcast_to(chosen.reshape(shape), sizes)
    return np.asarray(found if tree[0] == "is" else ~found)
