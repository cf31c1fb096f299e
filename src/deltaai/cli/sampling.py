"""``deltaai sample``: states from a sampler, or exact ones from a narrow or a Gaussian model.

They are drawn and written some at a time, so any number of them needs little memory; only a .npz
file is made in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltaai.answering import SampleBlock, sample_stream
from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.errors import DeltaAIError, TimeLimitError
from deltaai.fitting import Sampler
from deltaai.io import replacing
from deltaai.models import FactorGraph
from deltaai.randomness import generator_of
from deltaai.trust import Samples

_MOST_SHOWN = 20
_PACKING_BYTES = 3 * 2**24  # what numpy holds while it compresses an array


def run_sample(
    source: FactorGraph | Sampler,
    observed: Mapping[str, str | int],
    number: int,
    *,
    seed: int,
    budget: Budget,
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
    model = source.model if isinstance(source, Sampler) else source
    form = output.suffix.lower() if output is not None else ".json" if is_json else ".csv"
    if form == ".npz":
        budget = _without_array(model, number, budget)
    blocks = _Blocks(sample_stream(source, number, generator, evidence=observed, budget=budget))
    if output is not None and form == ".npz":
        _write_npz(model, blocks, number, output)
    elif output is None and not is_csv and not is_json:
        x, _ = next(iter(blocks))
        shown = min(number, _MOST_SHOWN)
        show.samples_table(model, x[:shown], f"{shown} of {number} samples")
    else:
        _write_text(model, blocks, output, is_json=form == ".json")
    for doubt in blocks.doubts:
        show.note(f"not to be trusted: {doubt}")
    if blocks.late is not None:
        raise blocks.late


class _Blocks:
    """Blocks of samples, until the last one or until the time is over."""

    def __init__(self, blocks: Iterator[SampleBlock]) -> None:
        self.blocks = blocks
        self.late: TimeLimitError | None = None
        self.doubts: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[SampleBlock]:
        count = 0
        try:
            for x, log_q in self.blocks:
                if isinstance(x, Samples):
                    self.doubts = x.doubts
                count += len(x)
                yield x, log_q
        except TimeLimitError as error:
            if not count:
                raise
            self.late = error  # what is drawn is kept


def _without_array(model: FactorGraph, number: int, budget: Budget) -> Budget:
    """What is left beside an array that holds all samples; refuses if it does not fit."""
    needed = 8 * number * (model.num_variables + 1) + _PACKING_BYTES
    remedy = "write .csv or .json, which need little, or draw fewer at a time"
    budget.refuse(f"{number} samples in one array", needed, remedy)
    return budget.with_memory(budget.memory - needed)


def _write_text(model: FactorGraph, blocks: _Blocks, output: Path | None, *, is_json: bool) -> None:
    names = [variable.name for variable in model.variables]
    # What a state looks like in a line is the same in all of them, and there may be very many.
    labels: list[Any] = [
        [_as_csv(label) for label in variable.states] for variable in model.variables
    ]
    heads = [""] * len(names)
    begin, between, separator, end = "", ",", "\n", "\n"
    if is_json:
        begin, between, separator, end = "  {", ", ", "},\n", "}\n]\n"
        labels = [
            [f"{show.json_line(name)}: {show.json_line(label)}" for label in variable.states]
            for name, variable in zip(names, model.variables, strict=True)
        ]
        heads = [f"{show.json_line(name)}: " for name in names]
    if not model.is_discrete:
        labels = [_Numbers(head, cells) for head, cells in zip(heads, labels, strict=True)]
    with show.writing(output) as write:
        write("[\n" if is_json else show.csv_text([names]))
        is_first = True
        for x, _ in blocks:
            lines = [
                begin + between.join(cells[k] for cells, k in zip(labels, row, strict=True))
                for row in x.tolist()
            ]
            write(("" if is_first else separator) + separator.join(lines))
            is_first = False
        write(end)


@dataclass(frozen=True)
class _Numbers:
    """Cells of a variable in states that are floating: labels, or numbers where there are none."""

    head: str
    labels: Sequence[str]

    def __getitem__(self, value: float) -> str:
        return self.labels[int(value)] if self.labels else f"{self.head}{value!r}"


def _as_csv(label: str) -> str:
    return show.csv_text([[label]]).removesuffix("\n")


def _write_npz(model: FactorGraph, blocks: _Blocks, number: int, output: Path) -> None:
    kind = np.int64 if model.is_discrete else np.float64
    states = np.empty((number, model.num_variables), dtype=kind)
    log_q = np.empty(number)
    done, has_log_q = 0, False
    for x, found in blocks:
        states[done : done + len(x)] = x.cpu().numpy()
        if found is not None:
            log_q[done : done + len(x)] = found.cpu().numpy()
            has_log_q = True
        done += len(x)
    arrays: dict[str, Any] = {"states": states[:done]}
    if has_log_q:
        arrays["log_q"] = log_q[:done]
    names = np.array([variable.name for variable in model.variables])
    with replacing(output) as stream:
        np.savez_compressed(stream, variables=names, **arrays)
    show.note(f"written to {output}")
