"""A question, resolved once: what a user passes, turned into values that nobody checks again.

The same for one row of evidence and for many: a model, a sampler or the path of either; names;
limits, counts and a seed in whatever type they come. This file answers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deltaai.answering.model_report import unnormalised_tables
from deltaai.arguments import (
    MOST_SAMPLES,
    checked_choice,
    checked_count,
    checked_samples,
    checked_seed,
)
from deltaai.budget import Budget
from deltaai.devices import Device, checked_device
from deltaai.errors import (
    ModelError,
    NotAffordableError,
    format_bytes,
    shown,
)
from deltaai.fitting import EvidenceFor, Sampler, load_sampler, moved_sampler, training_cost
from deltaai.io import as_model
from deltaai.models import FactorGraph, has_zeros, on_device
from deltaai.trust import CHECK_SAMPLES

SAMPLER_SUFFIX = ".dai"
SMOOTHING = 1e-3  # floor of zeros while training, as a share of a table's largest entry


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked, of what, and within which limits.

    Parameters
    ----------
    source : a model, or a sampler for one.
    evidence : what was observed: of one case numbers of variables and states, of many what holds
        them.
    method : how it is to be answered.
    num_samples, check_samples : samples to draw, and those of a second opinion, if it is sampled.
    budget : bytes and seconds that may be used; the clock runs.
    seed : of all randomness.
    started : when it was asked, as ``time.perf_counter`` counts.
    """

    source: FactorGraph | Sampler
    evidence: object
    method: str
    num_samples: int
    check_samples: int
    budget: Budget
    seed: int
    started: float = field(default_factory=time.perf_counter)

    @property
    def model(self) -> FactorGraph:
        """What it is about."""
        return self.source.model if isinstance(self.source, Sampler) else self.source

    @property
    def observed(self) -> dict[int, int]:
        """The evidence of a question about one case."""
        assert isinstance(self.evidence, dict)
        return self.evidence

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a user may not have meant, though it can be answered."""
        return tuple(unnormalised_tables(self.model))


def resolve(
    source: FactorGraph | Sampler | str | Path,
    evidence: object,
    *,
    method: str,
    methods: Sequence[str],
    num_samples: int | None,
    usual_samples: int,
    check_samples: int | None,
    budget: Budget,
    seed: int,
    device: Device = None,
) -> Question:
    """Check everything that a question comes with, before anything is computed.

    Parameters
    ----------
    source : a model, a sampler, or the path of a file with one.
    methods : those there are.
    usual_samples : how many to draw if that was not said; a second opinion has its own number.
    budget : what all of it may use, reading the file included.
    device : where to compute what is not computed on the CPU in any case.
    """
    started = time.perf_counter()
    check_method(method, methods)
    found = source_within(source, budget, device)
    model = found.model if isinstance(found, Sampler) else found
    if evidence is None or isinstance(evidence, Mapping):
        evidence = model.resolve_evidence(evidence)
    drawn = usual_samples if num_samples is None else checked_samples(num_samples)
    checks = CHECK_SAMPLES
    if check_samples is not None:
        checks = checked_count("check_samples", check_samples, 0, MOST_SAMPLES)
    return Question(
        source=found,
        evidence=evidence,
        method=method,
        num_samples=drawn,
        check_samples=checks,
        budget=budget,
        seed=checked_seed(seed),
        started=started,
    )


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
    """A model or a sampler, or the one in a file, by the end of its name."""
    if isinstance(source, Sampler):
        return source
    if isinstance(source, str | Path) and Path(source).suffix.lower() == SAMPLER_SUFFIX:
        return load_sampler(source)
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
