"""``deltaai sample``: states from a trained sampler, or exact ones from a model that is narrow."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from deltaai.cli import show
from deltaai.errors import DeltaAIError, NotAffordableError, format_bytes
from deltaai.exact import ExactInference, default_memory_limit
from deltaai.inference.sampler import Sampler
from deltaai.io.atomic import replace_file
from deltaai.models import FactorGraph
from deltaai.randomness import generator_of

_MOST_SHOWN = 20
_BYTES_PER_STATE = 16


def run_sample(
    source: FactorGraph | Sampler,
    observed: Mapping[str, str | int],
    number: int,
    *,
    seed: int,
    memory_limit: int | None,
    output: Path | None,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Draw samples; to a table on screen, as CSV or JSON, or to a file."""
    if number < 1:
        raise DeltaAIError(f"the number of samples is {number}: it must be at least 1")
    if output is not None and output.suffix.lower() not in {".csv", ".json", ".npz"}:
        raise DeltaAIError(f"{output}: samples are written to .csv, .json or .npz files")
    generator = generator_of(seed)
    model, log_q = source.model if isinstance(source, Sampler) else source, None
    limit = default_memory_limit() if memory_limit is None else memory_limit
    needed = _BYTES_PER_STATE * number * model.num_variables
    if needed > limit:
        raise NotAffordableError(
            f"{number} samples need about {format_bytes(needed)} and the memory limit is "
            f"{format_bytes(limit)}: draw fewer at a time, with another --seed each time"
        )
    if not isinstance(source, Sampler):
        engine = ExactInference(source, observed, memory_limit=memory_limit)
        x = engine.sample(number, generator)
    elif observed:
        x = source.sample(number, generator, evidence=observed)
    else:
        x, log_q = source.sample_with_log_prob(number, generator)
    form = output.suffix.lower() if output is not None else ".json" if is_json else ".csv"
    if output is not None and form == ".npz":
        replace_file(output, _as_npz(model, x, log_q))
        show.note(f"written to {output}")
    elif output is None and not is_csv and not is_json:
        shown = min(number, _MOST_SHOWN)
        show.samples_table(model, x[:shown], f"{shown} of {number} samples")
    else:
        show.emit(_as_json(model, x) if form == ".json" else _as_csv(model, x), output)


def _labels(model: FactorGraph, x: Tensor) -> list[list[str]]:
    variables = model.variables
    return [[v.states[k] for v, k in zip(variables, row, strict=True)] for row in x.tolist()]


def _as_csv(model: FactorGraph, x: Tensor) -> str:
    return show.csv_text([[variable.name for variable in model.variables], *_labels(model, x)])


def _as_json(model: FactorGraph, x: Tensor) -> str:
    names = [variable.name for variable in model.variables]
    return show.json_text([dict(zip(names, row, strict=True)) for row in _labels(model, x)])


def _as_npz(model: FactorGraph, x: Tensor, log_q: Tensor | None) -> bytes:
    arrays: dict[str, Any] = {"states": x.numpy()}
    if log_q is not None:
        arrays["log_q"] = log_q.numpy()
    buffer = io.BytesIO()
    names = np.array([variable.name for variable in model.variables])
    np.savez_compressed(buffer, variables=names, **arrays)
    return buffer.getvalue()
