"""What a command reads: a model, or a sampler that was trained for one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deltaai.answering import source_within
from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.cli.parsing import parse_evidence
from deltaai.fitting import Sampler
from deltaai.io import read
from deltaai.models import FactorGraph


def read_source(path: Path, budget: Budget, device: str | None = None) -> FactorGraph | Sampler:
    """Read a model, or a sampler if the file's name says so, within the limits of the command."""
    source = source_within(path, budget, device)
    model = model_of(source)
    sizes = f"{show.plural(model.num_variables, 'variable')}, {model.num_factors} factors"
    show.detail(f"read {path}: {sizes}")
    return source


def model_of(source: FactorGraph | Sampler) -> FactorGraph:
    """The model itself, or the one that a sampler was trained for."""
    return source.model if isinstance(source, Sampler) else source


def read_model(path: Path, budget: Budget) -> FactorGraph:
    """Read a model within the limits of the command; a sampler is none."""
    with budget.watched(f"the model in {path}"):
        model = read(path)
    show.detail(f"read {path}: {show.plural(model.num_variables, 'variable')}")
    return model


def read_observed(
    words: Sequence[str], file: Path | None, model: FactorGraph, budget: Budget
) -> dict[str, str | int]:
    """Join the evidence of a file and of ``name=state`` words, within the limits."""
    with budget.watched("the evidence"):
        return parse_evidence(words, file, model)
