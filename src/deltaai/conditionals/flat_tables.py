"""Factors inside what is known as flat rows of numbers, for compiled passes over all variables.

For one order without evidence and variables that have two states, every factor over v and its
inputs is a row of numbers in one vector. Which they are is worked out once; the numbers are read
anew from whatever target is asked about. The slow way, and the oracle, is
:class:`~deltaai.conditionals.informed.FactorTerms`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.flips import is_worth_compiling, load_compiled, shared_out
from deltaai.conditionals.informed import Term
from deltaai.conditionals.layout import Layout
from deltaai.models import Columns, FactorGraph, strides_of

_UNITS = 4  # hidden units that take as long as looking up a flip


class FlatTables:
    """What compiled passes need to know of the factors that enter logits.

    Parameters
    ----------
    terms : which factors enter whose logits.
    layout : variables and their inputs.
    model : of whose shapes the factors are.
    """

    def __init__(self, terms: Sequence[Term], layout: Layout, model: FactorGraph) -> None:
        self.layout = layout  # what has one state has no logits
        self.terms = tuple(t for t in terms if model.groups[t.group].sizes[t.place] > 1)
        rows, entries, counts = [np.zeros(0, np.int64)] * 3
        seen, strides, flips = [np.zeros(0, np.int64)] * 3
        length = 0
        for term in self.terms:
            group = model.groups[term.group]
            sizes = [size for place, size in enumerate(group.sizes) if place != term.place]
            number, others = len(term.factors), np.array(strides_of(sizes), np.int64)
            size = int(np.prod(sizes, dtype=np.int64))
            inputs = layout.slot_input[term.slots].numpy()
            rows = np.concatenate([rows, layout.first_row_of[term.owners].numpy()])
            entries = np.concatenate([entries, length + size * np.arange(number)])
            counts = np.concatenate([counts, np.full(number, len(sizes))])
            seen = np.concatenate([seen, inputs.ravel()])
            strides = np.concatenate([strides, np.tile(others, number)])
            flips = np.concatenate([flips, layout.first_flip_of[term.slots].numpy().ravel()])
            length += number * size
        order = np.argsort(rows, kind="stable")
        starts = np.cumsum(counts) - counts
        which = _ranges(starts[order], counts[order])
        self._first_table = np.searchsorted(rows[order], np.arange(layout.num_rows + 1))
        self._first_entry = np.ascontiguousarray(entries[order])
        self._first_input = np.concatenate(([0], np.cumsum(counts[order])))
        self._seen, self._strides, self._flips = seen[which], strides[which], flips[which]
        encoding = layout.encoding
        features = np.array([*encoding.first_row, encoding.zero_row])
        is_there = np.array([*encoding.num_features, 0]) > 0  # else it has one state, the first
        self._features = np.where(is_there, features, encoding.zero_row)[self._seen]
        self._kept: tuple[FactorGraph, np.ndarray] | None = None

    @staticmethod
    def is_possible(layout: Layout, model: FactorGraph) -> bool:
        """Whether it is made for a layout and model."""
        return (
            layout.is_binary
            and not layout.has_context
            and layout.device.type == "cpu"
            and model.dtype == torch.float32
        )

    def is_worth_it(self, num_columns: int, *, with_flips: bool = True) -> bool:
        """Whether so many columns are left to the compiled pass, which is loaded then."""
        return is_worth_compiling(self._num_units(num_columns, with_flips=with_flips)) and (
            load_compiled() is not None
        )

    def logits(self, model: FactorGraph, columns: Columns) -> Float[Tensor, "row batch"]:
        """Sum of the log-factors inside each variable and its inputs."""
        return self._run(model, columns, None)[0]

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""
        return self._run(model, columns, others)

    def for_drawing(self, model: FactorGraph) -> list[Tensor]:
        """What drawing reads, with the feature of each input in place of its variable."""
        tables = [self._first_table, self._first_entry, self._first_input]
        arrays = [*tables, self._features, self._strides, self._values(model)]
        return [torch.from_numpy(one) for one in arrays]

    def _run(
        self, model: FactorGraph, columns: Columns, others: Columns | None
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        layout, number = self.layout, columns.shape[1]
        kernel = importlib.import_module("deltaai.conditionals.compiled_tables").add_tables
        logits = torch.empty(layout.num_rows, number, dtype=torch.float32, device="cpu")
        has_flips = others is not None
        num_flips = layout.num_flips if has_flips else 0
        flips = torch.empty(num_flips, number, dtype=torch.float32, device="cpu")
        changed = columns[:, :0] if others is None else others
        starts, counts = layout.row_flips
        counts = counts if has_flips else torch.zeros_like(counts)
        arrays = [
            self._first_table,
            self._first_entry,
            self._first_input,
            self._seen,
            self._strides,
            self._values(model),
            _small(columns),
            _small(changed),
            self._flips,
            *(one.numpy() for one in (starts, counts, logits, flips)),
        ]
        shared_out(
            lambda start, stop: kernel(*arrays, start, stop),
            layout.num_rows,
            self._num_units(number, with_flips=has_flips),
        )
        return logits, flips

    def _values(self, model: FactorGraph) -> np.ndarray:
        """The numbers of all tables; kept while the target is the same value."""
        kept = self._kept
        if kept is None or kept[0] is not model:
            parts = [torch.zeros(0, dtype=torch.float32, device="cpu")]
            for term in self.terms:
                tables = model.groups[term.group].log_tables().detach()
                chosen = tables[term.factors].movedim(term.place + 1, 1)
                parts.append((chosen[:, 1] - chosen[:, 0]).flatten())
            kept = model, torch.cat(parts).numpy()
            self._kept = kept
        return kept[1]

    def _num_units(self, num_columns: int, *, with_flips: bool) -> int:
        return _UNITS * num_columns * (len(self._seen) if with_flips else len(self._first_entry))


def _ranges(starts: Int[np.ndarray, "range"], counts: Int[np.ndarray, "range"]) -> np.ndarray:
    """All numbers of several ranges, one after the other."""
    ends = np.cumsum(counts)
    within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    found: np.ndarray = np.repeat(starts, counts) + within
    return found


def _small(columns: Columns) -> np.ndarray:
    return columns.to(torch.int32).contiguous().numpy()
