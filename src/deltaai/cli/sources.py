"""What a command reads: a model, or a sampler that was trained for one."""

from __future__ import annotations

from pathlib import Path

from deltaai.answering import source_of
from deltaai.cli import show
from deltaai.fitting import Sampler
from deltaai.models import FactorGraph


def read_source(path: Path) -> FactorGraph | Sampler:
    """Read a model, or a sampler if the file's name says so."""
    source = source_of(path)
    model = model_of(source)
    sizes = f"{show.plural(model.num_variables, 'variable')}, {model.num_factors} factors"
    show.detail(f"read {path}: {sizes}")
    return source


def model_of(source: FactorGraph | Sampler) -> FactorGraph:
    """The model itself, or the one that a sampler was trained for."""
    return source.model if isinstance(source, Sampler) else source
