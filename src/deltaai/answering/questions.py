"""A question, resolved once: what a user passes, turned into values that nobody checks again.

The same for one row of evidence and for many: a model, a sampler or the path of either; names;
limits, counts and a seed in whatever type they come. The :class:`Question` goes to those who answer
it as it is, and each layer reads from it what it needs. This file answers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from deltaai.answering.columns import columns_of
from deltaai.answering.model_report import unnormalised_tables
from deltaai.arguments import (
    MOST_SAMPLES,
    checked_choice,
    checked_count,
    checked_number,
    checked_samples,
    checked_seed,
)
from deltaai.budget import Budget
from deltaai.devices import Device, checked_device
from deltaai.errors import (
    ConfigError,
    EvidenceError,
    ModelError,
    NotAffordableError,
    Setting,
    format_bytes,
    shown,
)
from deltaai.fitting import EvidenceFor, Sampler, load_sampler, moved_sampler, training_cost
from deltaai.io import MODEL_KIND, CaseStream, as_model, kind_of
from deltaai.models import (
    Evidence,
    FactorGraph,
    Likelihood,
    has_zeros,
    intervened,
    on_device,
    set_free,
    with_likelihoods,
)
from deltaai.trust import CHECK_SAMPLES, Asked, asked_names, refuse_joints

METHODS = ("auto", "exact", "sampler", "bp")
ROW_METHODS = ("auto", "exact", "sampler")
NUM_SAMPLES, ROW_SAMPLES = 10_000, 1000  # of an answer, and of that to a row of a table
CHECKED_ROWS = 1000  # rows that get a second opinion, at most
SAMPLER_SUFFIX = ".dai"
TARGET_STDERR = 0.01  # of log Z and of probabilities
# Training ends where weights are no more even than the first; the second is never asked for, for
# no network gets there.
_LEAST_ESS, _MOST_ESS = 0.5, 0.998
_EXAMPLES = {"do": "{'rain': 'yes'}", "likelihood": "{'rain': {'yes': 0.9, 'no': 0.2}}"}
SMOOTHING = 1e-3  # floor of zeros while training, as a share of a table's largest entry


@dataclass(frozen=True, eq=False)
class TableChoices:
    """What there is to choose for a table of cases, beside what there is for one.

    Parameters
    ----------
    samples : states to return for each row.
    check_rows : rows that get a second opinion at most, where rows are sampled.
    settings : of training, if a sampler has to be trained: what ``fit`` takes.

    Examples
    --------
    >>> TableChoices(samples=-1)
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: samples is -1; it must be a whole number, at least 0 and at most ...
    """

    samples: int = 0
    check_rows: int = CHECKED_ROWS
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        samples = checked_count("samples", self.samples, 0, MOST_SAMPLES)
        object.__setattr__(self, "samples", samples)
        object.__setattr__(self, "check_rows", checked_count("check_rows", self.check_rows))


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked, of what, and within which limits.

    Parameters
    ----------
    source : a model, or a sampler for one.
    evidence : what was observed: of one case numbers of variables and states, of many what holds
        them.
    asked : names of the variables to report, and tuples of them for joint marginals.
    method : how it is to be answered.
    num_samples, check_samples : samples to draw, and those of a second opinion, if it is sampled.
    target_stderr : standard error of log Z and of probabilities at which training may end.
    budget : bytes and seconds that may be used; the clock runs.
    seed : of all randomness.
    table : what was chosen for many cases; none if it is about one.
    started : when it was asked, as ``time.perf_counter`` counts.
    """

    source: FactorGraph | Sampler
    evidence: object
    asked: Sequence[Asked]
    method: str
    num_samples: int
    check_samples: int
    budget: Budget
    seed: int
    target_stderr: float = TARGET_STDERR
    table: TableChoices | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def model(self) -> FactorGraph:
        """What it is about."""
        return self.source.model if isinstance(self.source, Sampler) else self.source

    @property
    def observed(self) -> dict[int, Any]:
        """The evidence of a question about one case."""
        assert isinstance(self.evidence, dict)
        return self.evidence

    @property
    def cases(self) -> CaseStream:
        """The evidence of a question about cases that are read as they are answered."""
        assert isinstance(self.evidence, CaseStream)
        return self.evidence

    @property
    def of_rows(self) -> TableChoices:
        """What was chosen in a question about many cases."""
        assert self.table is not None
        return self.table

    @property
    def names(self) -> list[str]:
        """The variables whose own marginals are to be reported."""
        return [item for item in self.asked if isinstance(item, str)]

    @property
    def target_ess(self) -> float:
        """How even weights have to be for that error of log Z, which is above a probability's.

        >>> from deltaai.models import zoo
        >>> resolve(zoo.sprinkler(), budget=Budget.of()).target_ess
        0.5
        """
        enough = 1.0 / (1.0 + self.num_samples * self.target_stderr**2)
        return min(max(enough, _LEAST_ESS), _MOST_ESS)

    @cached_property
    def num_pairs(self) -> int:
        """Probabilities that are reported for these, and figures of real ones."""
        return sum(len(columns_of(self.model, name)) for name in self.names)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a user may not have meant, though it can be answered."""
        return tuple(unnormalised_tables(self.model))


def resolve(
    source: FactorGraph | Sampler | str | Path,
    evidence: Any = None,  # noqa: ANN401
    of: Sequence[Asked] | None = None,
    *,
    budget: Budget,
    method: str = "auto",
    num_samples: int | None = None,
    check_samples: int | None = None,
    target_stderr: float | int | None = None,
    do: Evidence | None = None,
    likelihood: Likelihood | None = None,
    seed: int = 0,
    device: Device = None,
    table: TableChoices | None = None,
) -> Question:
    """Check everything that a question comes with, before anything is computed.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with one.
    evidence : of one case names to states; of many whatever holds them, which is left as it is.
    of : the variables to report; all by default.
    budget : what all of it may use, reading the file included.
    method, num_samples, check_samples, target_stderr, do, likelihood, seed : as
        :func:`~deltaai.answering.asking.query` has them.
    device : where to compute what is not computed on the CPU in any case.
    table : what was chosen for many cases, if there are many.
    """
    started = time.perf_counter()
    check_method(method, METHODS if table is None else ROW_METHODS)
    found = source_within(source, budget, device)
    if do is not None or likelihood is not None:
        found, evidence = supposed(found, evidence, do, likelihood, is_table=table is not None)
    model = found.model if isinstance(found, Sampler) else found
    if table is None:
        evidence = model.resolve_evidence(evidence)
    drawn = NUM_SAMPLES if table is None else ROW_SAMPLES
    if num_samples is not None:
        drawn = checked_samples(num_samples)
    checks = CHECK_SAMPLES
    if check_samples is not None:
        checks = checked_count("check_samples", check_samples, 0, MOST_SAMPLES)
    stderr = TARGET_STDERR
    if target_stderr is not None:
        stderr = checked_number("target_stderr", target_stderr)
    seed = checked_seed(seed)
    asked = asked_names(model, of)
    if table is not None:
        refuse_joints(asked, "a table of cases", "ask for one case at a time")
    return Question(
        source=found,
        evidence=evidence,
        asked=asked,
        method=method,
        num_samples=drawn,
        check_samples=checks,
        budget=budget,
        seed=seed,
        target_stderr=float(stderr),
        table=table,
        started=started,
    )


def supposed(
    source: FactorGraph | Sampler,
    evidence: Any,  # noqa: ANN401
    do: Evidence | None,
    likelihood: Likelihood | None,
    *,
    is_table: bool,
) -> tuple[FactorGraph | Sampler, Any]:
    """A model with what is set from outside and what is only likely, and the evidence about it.

    What is set is evidence about a model without the tables that chose it, and is reported as such;
    a table of cases is about the others.
    """
    for what, given in (("do", do), ("likelihood", likelihood)):
        if given is not None and not isinstance(given, Mapping):
            raise EvidenceError(
                f"{what} is {shown(given)}: give a mapping of names, such as {_EXAMPLES[what]}"
            )
    if not do and not likelihood:
        return source, evidence
    if isinstance(source, Sampler):
        raise ConfigError(
            "a sampler is of its model as it is, and ",
            Setting("do" if do else "likelihood"),
            " makes another one of it: give the model",
        )
    model = source if likelihood is None else with_likelihoods(source, likelihood)
    if not do:
        return model, evidence
    states = model.resolve_evidence(do)
    names = [model.variables[number].name for number in states]
    if likelihood and (both := [name for name in names if name in likelihood]):
        raise EvidenceError(f"{both[0]!r} is set from outside and has a likelihood: give one")
    if is_table:
        return intervened(model, do), evidence
    model = set_free(model, names)
    observed = model.resolve_evidence(evidence)
    if both := [model.variables[number].name for number in states if number in observed]:
        raise EvidenceError(f"{both[0]!r} is both observed and set from outside: give one")
    return model, model.named_evidence({**observed, **states})


def source_within(
    source: FactorGraph | Sampler | str | Path, budget: Budget, device: Device = None
) -> FactorGraph | Sampler:
    """A model or a sampler, or the one in a file, read within the limits and put on a device."""
    wanted = checked_device(device)
    with budget.watched(f"the model in {source}" if isinstance(source, str | Path) else "it"):
        found = source_of(source)
        if isinstance(found, Sampler):
            return moved_sampler(found, wanted)
        return on_device(found, wanted)


def source_of(source: FactorGraph | Sampler | str | Path) -> FactorGraph | Sampler:
    """A model or a sampler, or the one in a file: names that end in ``.dai`` are of both."""
    if isinstance(source, Sampler):
        return source
    if isinstance(source, str | Path) and Path(source).suffix.lower() == SAMPLER_SUFFIX:
        return as_model(source) if kind_of(source) == MODEL_KIND else load_sampler(source)
    if not isinstance(source, FactorGraph | str | Path):
        raise ModelError(
            f"{shown(source)} is no model: give a FactorGraph, a Sampler, or the path of a file"
        )
    return as_model(source)


def check_method(method: str, known: Sequence[str]) -> str:
    """Refuse a method that there is not.

    >>> check_method("exakt", ["exact", "auto"])
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: method is 'exakt'; did you mean 'exact'? One of exact, auto
    """
    return checked_choice("method", method, known)


def suitable_smoothing(model: FactorGraph) -> float | None:
    """What to floor zeros at while training; nothing if there are none."""
    return SMOOTHING if has_zeros(model) else None


def refuse_training(model: FactorGraph, memory_limit: int, evidence: EvidenceFor = None) -> None:
    """Raise an error if training a sampler would not fit into memory."""
    needed = training_cost(model, evidence).peak_bytes
    if needed > memory_limit:
        raise NotAffordableError(
            f"training a sampler needs about {format_bytes(needed)} and the memory limit is "
            f"{format_bytes(memory_limit)}; raise the limit"
        )
