"""The masked autoencoder of the paper: one network for the conditionals of all variables.

    logits of v = head_v(body(z)),   body = {Linear -> LayerNorm -> ReLU} x depth

z holds the encoded states of *all* variables, zero but for the known inputs of v (paragraph
"Masked autoencoder for amortizing all conditionals"). A variable of which nothing is known has no
use for the network: its logits are a learnable vector of their own, the *marginals*. Whether
something is known follows from the structure (inputs and masks), never from the features' values.

A row of the network is one (variable, column) pair, so its cost grows with the width squared and
with the number of variables of the model, unlike that of
:class:`~deltaai.conditionals.local.LocalConditionals`. Nothing is shared between a row and its
flips: every known input costs another row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.context import Context
from deltaai.conditionals.dense import DenseLayers, uniform_weights
from deltaai.conditionals.layout import Block, Layout
from deltaai.errors import ConfigError, Setting

# Rows that the network sees at once: bounds what is not kept for gradients.
_ROWS_AT_ONCE = 8192


class MaskedAutoencoder(Conditionals):
    """One network over all variables, asked for one variable at a time.

    Parameters
    ----------
    layout : variables and their inputs.
    hidden : units of each hidden layer.
    depth : number of hidden layers.
    num_context : features of a column that every conditional sees.
    is_residual : see :class:`~deltaai.conditionals.dense.DenseLayers`.
    generator : randomness of the initial weights.
    """

    def __init__(
        self,
        layout: Layout,
        hidden: int = 512,
        depth: int = 3,
        *,
        num_context: int = 0,
        is_residual: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.layout = layout
        self.hidden, self.num_context = hidden, num_context
        num_inputs = layout.encoding.num_rows + num_context
        self.body = DenseLayers(
            num_inputs, hidden, depth, generator, layout.device, is_residual=is_residual
        )
        width = self.body.num_outputs
        self.heads = nn.Parameter(
            uniform_weights((layout.num_rows, width), width, generator, layout.device)
        )
        self.head_biases = nn.Parameter(
            uniform_weights((layout.num_rows,), width, generator, layout.device)
        )
        self.marginals = nn.Parameter(
            torch.zeros(layout.num_rows, dtype=torch.float32, device=layout.device)
        )

    def parameter_groups(
        self, learning_rate: float | int, marginals_factor: float | int = 100
    ) -> list[dict[str, Any]]:
        """Groups for an optimiser: the marginals learn ``marginals_factor`` times as fast."""
        network = [value for name, value in self.named_parameters() if name != "marginals"]
        return [
            {"params": network, "lr": learning_rate},
            {"params": [self.marginals], "lr": learning_rate * marginals_factor},
        ]

    def logits(
        self,
        features: Float[Tensor, "feature batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> Float[Tensor, "row batch"]:
        """Correction of every variable at full states."""
        bases = [self._base(block, features, known, context) for block in self.layout.blocks]
        return torch.cat(bases)

    def logits_and_flips(
        self,
        features: Float[Tensor, "feature batch"],
        flipped: Float[Tensor, "feature batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Corrections at full states, and with each input in turn at its value in ``flipped``."""
        rows, flips = [], []
        for block in self.layout.blocks:
            base = self._base(block, features, known, context)
            rows.append(base)
            flips.append(self._flips(block, base, features, flipped, known, context))
        return torch.cat(rows), torch.cat(flips)

    def logits_at(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        inputs: Float[Tensor, "pair input feature batch"],
        known: Float[Tensor, "pair input"] | Float[Tensor, "pair input batch"] | None = None,
        context: Float[Tensor, "pair term batch"] | None = None,
    ) -> Float[Tensor, "pair logit batch"]:
        """Correction of some members of a block at given encoded inputs."""
        where = self.layout.blocks[block]
        pairs, batch = len(members), inputs.shape[3]
        mask = self._is_input(where)[members][:, :, None]
        if known is not None:
            mask = mask & ((known[:, :, None] if known.ndim == 2 else known) > 0)
        seen = mask.expand(-1, -1, batch).transpose(1, 2).flatten(0, 1)
        values = inputs.permute(0, 3, 1, 2).flatten(0, 1)
        around = None if context is None else context.transpose(1, 2).flatten(0, 1)
        logits = self._rows(where, members.repeat_interleave(batch), values, seen, around)
        return logits.view(pairs, batch, where.num_logits).transpose(1, 2)

    @torch.no_grad()
    def set_constant(
        self,
        rows: Float[Tensor, "row"],
        when_known: Sequence[Float[Tensor, "_variable _logit _input"]] | None = None,
    ) -> None:
        """Make every correction constant: the biases of the heads, and the marginals."""
        if when_known is not None:
            raise ConfigError(
                "the masked autoencoder has one bias for all that may be known: choose ",
                Setting("orders", "one"),
                ", or ",
                Setting("family", "local"),
            )
        self.heads.zero_()
        self.head_biases.copy_(rows)
        self.marginals.copy_(rows)

    def _base(
        self, block: Block, features: Tensor, known: Known, context: Context | None
    ) -> Float[Tensor, "row batch"]:
        """Rows of one block at full states."""
        batch = features.shape[1]
        member = torch.arange(block.size, device=features.device).repeat_interleave(batch)
        column = torch.arange(batch, device=features.device).repeat(block.size)
        mask = self._mask(block, batch, known).transpose(1, 2).flatten(0, 1)
        parts = [
            self._rows(
                block,
                some,
                features[block.feature_rows[some], at[:, None, None]],
                seen,
                None if context is None else context.of_block(0)[0].T[at],
            )
            for some, at, seen in _chunks(member, column, mask)
        ]
        logits = torch.cat([features.new_zeros(0, block.num_logits), *parts])
        logits = logits.view(block.size, batch, block.num_logits)
        return logits.transpose(1, 2).flatten(0, 1)

    def _flips(
        self,
        block: Block,
        base: Tensor,
        features: Tensor,
        flipped: Tensor,
        known: Known,
        context: Context | None,
    ) -> Float[Tensor, "flip batch"]:
        """Flip rows of one block; where an input is not known, a flip changes nothing."""
        batch = features.shape[1]
        mask = self._mask(block, batch, known)
        member, place, column = mask[:, : block.num_flipped].nonzero(as_tuple=True)
        parts = [base.new_zeros(0, block.num_logits)]
        for some, slot, at in _chunks(member, place, column):
            rows = block.feature_rows[some]
            values = features[rows, at[:, None, None]]
            here = torch.arange(len(some), device=some.device)
            values[here, slot] = flipped[rows[here, slot], at[:, None]]
            around = None if context is None else context.of_block(0)[0].T[at]
            parts.append(self._rows(block, some, values, mask[some, :, at], around))
        shape = (block.size, block.num_logits, block.num_flipped, batch)
        start = base.view(block.size, block.num_logits, 1, batch).expand(shape)
        by_slot = start.permute(0, 2, 3, 1)  # logits last, as rows of the network have them
        moved = by_slot.index_put((member, place, column), torch.cat(parts))
        return moved.permute(0, 1, 3, 2).flatten(0, 2)

    def _rows(
        self,
        block: Block,
        member: Int[Tensor, "item"],
        values: Float[Tensor, "item input feature"],
        mask: Bool[Tensor, "item input"],
        context: Float[Tensor, "item context"] | None = None,
    ) -> Float[Tensor, "item logit"]:
        """Logits of one member of a block in each row, given its encoded inputs and a mask."""
        own = block.first_row + torch.arange(block.size * block.num_logits, device=member.device)
        logits = self.marginals[own].view(block.size, block.num_logits)[member]
        if context is not None:  # then there is always something to see
            seeing = torch.arange(len(member), device=member.device)
        else:
            seeing = mask.any(1).nonzero().squeeze(1)
        parts = []
        for (chosen,) in _chunks(seeing):
            some = member[chosen]
            masked = values[chosen] * mask[chosen][:, :, None]
            spread = masked.new_zeros(len(chosen), self.layout.encoding.num_rows + 1)
            spread.scatter_(1, block.feature_rows[some].flatten(1), masked.flatten(1))
            seen = spread[:, :-1]  # padding was written to the last
            if self.num_context:
                around = seen.new_zeros(len(chosen), self.num_context)
                around = around if context is None else context[chosen]
                seen = torch.cat((seen, around), dim=1)
            state = self.body(seen)
            # The heads of the whole block as one product: cheaper than a gather of heads a row.
            every = functional.linear(state, self.heads[own], self.head_biases[own])
            by_member = every.view(len(chosen), block.size, block.num_logits)
            parts.append(by_member[torch.arange(len(chosen), device=chosen.device), some])
        return logits.index_copy(0, seeing, torch.cat(parts)) if parts else logits

    def _mask(self, block: Block, batch: int, known: Known) -> Bool[Tensor, "variable input batch"]:
        """Which inputs of a block are there and known, in each column."""
        is_input = self._is_input(block)[:, :, None].expand(-1, -1, batch)
        if known is None:
            return is_input
        return is_input & (known[block.slots].view(is_input.shape) > 0)

    def _is_input(self, block: Block) -> Bool[Tensor, "variable input"]:
        return block.inputs < self.layout.num_variables


def _chunks(*rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors that have a row for each evaluation into parts of bounded size."""
    for start in range(0, len(rows[0]), _ROWS_AT_ONCE):
        yield tuple(tensor[start : start + _ROWS_AT_ONCE] for tensor in rows)
