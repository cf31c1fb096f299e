"""All networks of a family in one compiled pass: logits, flips and their gradients, and drawing.

Variables are numbered by block, as rows of logits are, so that weights are read as they are. The
pass is for variables with two states, one hidden layer, and no masks, on the CPU and in single
precision. What it needs to know of a layout is worked out once; the weights of all blocks are put
together for every call, which takes less time than one operation for each block would.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.context import Context
from deltaai.conditionals.flips import Activation, is_worth_compiling, load_compiled, shared_out
from deltaai.conditionals.layout import Layout
from deltaai.models import Columns

_STRIDE = 16  # variables so many places apart follow each other, so that threads have equal work


@runtime_checkable
class OneLayer(Protocol):
    """The networks of one block, with one hidden layer."""

    first: Tensor
    first_bias: Tensor
    last: Tensor
    last_bias: Tensor
    bypass: Tensor


class Stacked:
    """What the compiled pass needs to know of a layout.

    Parameters
    ----------
    layout : whose variables have two states, or are given.
    networks : of each block.
    activation : of the hidden units.
    """

    def __init__(
        self, layout: Layout, networks: Sequence[OneLayer], activation: Activation
    ) -> None:
        self._activation: Activation = activation
        self._numbers = [n for n, block in enumerate(layout.blocks) if block.num_logits]
        blocks = [layout.blocks[number] for number in self._numbers]
        self._networks = [networks[number] for number in self._numbers]
        self._variables = layout.row_variable
        self._inputs = torch.cat([block.feature_rows.flatten() for block in blocks])
        counts = [b.num_inputs * b.num_features for b in blocks for _ in range(b.size)]
        self._counts = torch.tensor(counts, dtype=torch.long, device="cpu")
        self._starts = self._counts.cumsum(0) - self._counts
        self._flip_starts, self._flip_counts = layout.row_flips
        self._own = layout.encoding.first_rows[self._variables]
        self._place = torch.full((layout.num_variables,), -1, dtype=torch.long, device="cpu")
        self._place[self._variables] = torch.arange(len(self._variables), device="cpu")
        self._num_rows = layout.encoding.num_rows + 1
        self._num_flips = layout.num_flips
        self._has_flips = all(block.num_features == 1 for block in blocks)
        spread = np.argsort(np.arange(len(self._variables)) % _STRIDE, kind="stable")
        self._spread = torch.from_numpy(spread)

    @staticmethod
    def is_possible(layout: Layout) -> bool:
        """Whether all variables have two states or are given, on the CPU."""
        return layout.is_binary and layout.device.type == "cpu"

    def is_worth_it(self, num_columns: int, *, with_flips: bool = False) -> bool:
        """Whether so many columns are left to the compiled pass, which is loaded then."""
        if with_flips and not self._has_flips:
            return False
        return is_worth_compiling(self._num_units(num_columns)) and load_compiled() is not None

    def logits(
        self, features: Float[Tensor, "feature_row batch"], context: Context | None
    ) -> Float[Tensor, "row batch"]:
        """Logits of all variables at full states."""
        if torch.is_grad_enabled():
            return self._passed(features, None, context)[0]
        logits = features.new_empty(len(self._variables), features.shape[1])
        nothing, order = features.new_zeros(0, 0), torch.arange(len(self._variables), device="cpu")
        self._run(order, context, order[:0], nothing, nothing.flatten(), features, logits)
        return logits

    def logits_and_flips(
        self,
        features: Float[Tensor, "feature_row batch"],
        change: Float[Tensor, "feature_row batch"],
        context: Context | None,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Logits of all variables at full states, and with each input in turn changed.

        Parameters
        ----------
        change : what the features of each variable change by.
        """
        return self._passed(features, change, context)

    def draw(
        self,
        order: Sequence[int],
        chance: Float[Tensor, "var batch"],
        scale: Float[Tensor, "batch"],
        context: Context | None,
        tables: Sequence[Tensor] = (),
    ) -> tuple[Columns, Float[Tensor, "var batch"]]:
        """Draw all variables, parents first: their states and logits.

        Parameters
        ----------
        order : parents first.
        chance : uniform numbers; a variable takes its second state with a probability above that.
        scale : what the logits of each column are multiplied by for drawing.
        context : what is given with each column.
        tables : what is known before training, as :meth:`FlatTables.for_drawing` has it.
        """
        features = chance.new_zeros(self._num_rows, chance.shape[1])
        logits = torch.empty_like(chance)
        in_turn = self._place[torch.tensor(list(order), dtype=torch.long, device="cpu")]
        drawn = self._own, chance[self._variables], scale, features, logits
        self._run(in_turn, context, *drawn, tables=tables)
        states = (features[self._own] > 0).long()
        return states[self._place], logits[self._place]

    def _weights(self) -> list[Tensor]:
        """Weights of all networks, one after the other."""
        networks = self._networks
        return [
            torch.cat([one.first.flatten() for one in networks]),
            torch.cat([one.bypass.flatten() for one in networks]),
            torch.cat([one.first_bias.flatten(1) for one in networks]),
            torch.cat([one.last.flatten(1) for one in networks]),
            torch.cat([one.last_bias.flatten() for one in networks]),
        ]

    def _run(
        self,
        order: Tensor,
        context: Context | None,
        *rest: Tensor,
        tables: Sequence[Tensor] = (),
    ) -> None:
        """Compute logits in an order, and draw if that is asked for."""
        features, each = rest[3], 1
        given = features.new_zeros(0, 0, 0)
        if context is not None:
            given = torch.cat([context.terms[number] for number in self._numbers])
            each = context.each
        number = features.shape[1]
        tensors = [order, self._starts, self._counts, self._inputs, *self._weights(), given]
        nothing = order[:0]
        tables = tables or [nothing] * 5 + [features.new_zeros(0)]
        arrays = _arrays([*tensors, torch.arange(number, device="cpu") // each, *rest, *tables])
        kernel, kind = self._kernel("logits_in_order")
        shared_out(
            lambda start, stop: kernel(*arrays, kind, start, stop),
            number,
            self._num_units(number),
            is_columns=True,
        )

    def _passed(
        self, features: Tensor, change: Tensor | None, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        given = features.new_zeros(0, 0, 0)
        if context is not None:
            given = torch.cat([context.of_block(number) for number in self._numbers])
        found: tuple[Tensor, Tensor] = _Passes.apply(  # type: ignore[no-untyped-call]
            self, features, change, *self._weights(), given
        )
        return found

    def _over_variables(self, name: str, tensors: Sequence[Tensor], num_columns: int) -> None:
        """Run a pass over all variables."""
        tensors = [self._spread, self._starts, self._counts, self._inputs, *tensors]
        arrays, (kernel, kind) = _arrays(tensors), self._kernel(name)
        shared_out(
            lambda start, stop: kernel(*arrays, kind, start, stop),
            len(self._spread),
            self._num_units(num_columns),
        )

    def _flips_of(self, change: Tensor | None) -> tuple[Tensor, Tensor, int]:
        """Where flips begin, how many there are, and how many in all."""
        if change is None:
            return self._flip_starts, torch.zeros_like(self._flip_counts), 0
        return self._flip_starts, self._flip_counts, self._num_flips

    def _kernel(self, name: str) -> tuple[Any, int]:
        compiled = importlib.import_module("deltaai.conditionals.compiled_networks")
        return getattr(compiled, name), compiled.KINDS[self._activation]

    def _num_units(self, num_columns: int) -> int:
        return len(self._inputs) * self._networks[0].last.shape[2] * num_columns


class _Passes(torch.autograd.Function):
    """Logits and flips, and the gradients of all weights."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        stacked: Stacked,
        features: Tensor,
        change: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        first, _, bias, last, _, context = weights
        starts, counts, num_flips = stacked._flips_of(change)
        moved = features.new_zeros(0, 0) if change is None else change
        before = bias.new_empty(*bias.shape, features.shape[1])
        logits = features.new_empty(len(bias), features.shape[1])
        flips = features.new_empty(num_flips, features.shape[1])
        tensors = [*weights, features, moved, starts, counts, before, logits, flips]
        stacked._over_variables("forward", tensors, features.shape[1])
        ctx.stacked, ctx.has_context = stacked, bool(context.numel())
        ctx.save_for_backward(first, last, features, moved, starts, counts, before)
        return logits, flips

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        first, last, features, *_, before = ctx.saved_tensors
        num_slots = len(first) // last.shape[1]
        found = [
            torch.zeros_like(first),
            first.new_zeros(num_slots),
            torch.zeros_like(last),
            torch.zeros_like(last),
            first.new_zeros(len(last)),
            before.new_empty(before.shape[0], before.shape[1] + 1, before.shape[2]),
        ]
        tensors = [*ctx.saved_tensors, *slopes, *found]
        ctx.stacked._over_variables("backward", tensors, features.shape[1])
        if not ctx.has_context:
            found.pop()
        return None, None, None, *found, *([] if ctx.has_context else [None])


def _arrays(tensors: Sequence[Tensor]) -> list[Any]:
    return [value.detach().contiguous().numpy() for value in tensors]
