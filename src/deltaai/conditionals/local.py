"""A small network for every variable, all of them evaluated in batched products.

    correction_v = U_v z + W2_v tanh(W1_v z + b1_v) + b2_v,    z = encoded inputs of v

with SiLU or hardswish in place of tanh, or a second hidden layer, if asked for.

Changing one input u changes z in u's features only, so the first layer of all flips is a rank-one
update of one shared pre-activation instead of a new product: the cost of a flip is that of the
hidden units, not of the inputs. With ``takes_masks`` the network also sees which inputs are known
(a second set of first-layer weights), and unknown inputs are zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.context import Context
from deltaai.conditionals.flips import (
    Activation,
    activated,
    flipped_units,
    is_worth_compiling,
    load_compiled,
)
from deltaai.conditionals.layout import Block, Layout
from deltaai.conditionals.stacked import Stacked
from deltaai.errors import ConfigError
from deltaai.watch import look


class LocalConditionals(Conditionals):
    """One or two hidden layers a variable, with a linear bypass.

    Parameters
    ----------
    layout : variables and their inputs.
    hidden : hidden units of each variable's network.
    depth : hidden layers, one or two; a flip costs hidden units in one, their square in two.
    activation : of the hidden units.
    takes_masks : whether conditionals are asked with varying sets of known inputs.
    num_context : features of a column that every conditional sees.
    generator : randomness of the initial weights.
    """

    def __init__(
        self,
        layout: Layout,
        hidden: int = 32,
        *,
        depth: int = 1,
        activation: Activation = "tanh",
        takes_masks: bool = False,
        num_context: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if depth not in (1, 2):
            raise ConfigError(f"depth is {depth}: these networks have 1 or 2 hidden layers")
        if activation not in get_args(Activation):
            raise ConfigError(f"activation is {activation!r}: choose one of {get_args(Activation)}")
        self.layout = layout
        self.hidden = hidden
        self.takes_masks = takes_masks
        self._networks = [
            _Networks(block, hidden, depth, activation, takes_masks, num_context, generator)
            for block in layout.blocks
        ]
        self.networks = nn.ModuleList(self._networks)
        self._stacked: Stacked | None = None
        if depth == 1 and not takes_masks and Stacked.is_possible(layout):
            self._stacked = Stacked(layout, self._networks, activation)

    def context_terms(self, features: Float[Tensor, "context batch"]) -> Context:
        """What the features add to the first layer and the bypass of every network."""
        return Context(tuple(networks.context_terms(features) for networks in self._networks))

    def expect_flips(self, num_columns: int) -> None:
        """Load the compiled pass, if there will be enough to do for it."""
        if self._is_worth_compiling(num_columns):
            load_compiled()

    def _is_worth_compiling(self, num_columns: int) -> bool:
        return is_worth_compiling(self.hidden * self.layout.num_flips * num_columns)

    def logits(
        self,
        features: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> Float[Tensor, "row batch"]:
        """Correction of every variable at full states."""
        stacked = self.in_one_pass(features.shape[1]) if known is None else None
        if stacked is not None:
            return stacked.logits(features, context)
        parts = []
        for number, (block, networks) in enumerate(
            zip(self.layout.blocks, self._networks, strict=True)
        ):
            inputs = gather_inputs(block, features)
            mask = _mask_of(block, known)
            parts.append(networks(inputs, mask, _terms_of(number, context)).flatten(0, 1))
        return torch.cat(parts)

    def logits_and_flips(
        self,
        features: Float[Tensor, "feature_row batch"],
        flipped: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Corrections at full states, and with each input in turn at its value in ``flipped``."""
        change = flipped - features
        number = features.shape[1]
        stacked = self.in_one_pass(number, with_flips=True) if known is None else None
        if stacked is not None:
            return stacked.logits_and_flips(features, change, context)
        is_compiled = self._is_worth_compiling(number)
        rows, flips = [], []
        for number, (block, networks) in enumerate(
            zip(self.layout.blocks, self._networks, strict=True)
        ):
            look()
            inputs = gather_inputs(block, features)
            moves = gather_inputs(block, change, block.num_flipped)
            terms = _terms_of(number, context)
            base, moved = networks.with_flips(
                inputs, moves, _mask_of(block, known), terms, is_compiled
            )
            rows.append(base.flatten(0, 1))
            flips.append(moved.flatten(0, 2))
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
        mask = known
        if known is not None and known.ndim == 2:
            mask = known[:, :, None].expand(-1, -1, inputs.shape[3])
        logits: Tensor = self._networks[block](inputs, mask, context, members)
        return logits

    def in_one_pass(self, num_columns: int, *, with_flips: bool = False) -> Stacked | None:
        """The compiled pass, if it is made for these networks and so many columns are worth it."""
        stacked = self._stacked
        if stacked is None or next(self.parameters()).dtype != torch.float32:
            return None
        return stacked if stacked.is_worth_it(num_columns, with_flips=with_flips) else None

    @torch.no_grad()
    def set_constant(
        self,
        rows: Float[Tensor, "row"],
        when_known: Sequence[Float[Tensor, "_variable _logit _input"]] | None = None,
    ) -> None:
        """Make every correction constant: the last biases, and the linear weights of the masks."""
        if when_known is not None and not self.takes_masks:
            raise ConfigError("these networks see no masks: build them with takes_masks=True")
        for number, (block, networks) in enumerate(
            zip(self.layout.blocks, self._networks, strict=True)
        ):
            networks.last.zero_()
            networks.bypass.zero_()
            networks.last_bias.copy_(rows[block.rows].view(networks.last_bias.shape))
            if networks.bypass_mask is not None:
                networks.bypass_mask.zero_()
                if when_known is not None:
                    networks.bypass_mask.copy_(when_known[number])


def gather_inputs(
    block: Block, features: Float[Tensor, "feature_row batch"], number: int | None = None
) -> Float[Tensor, "variable input feature batch"]:
    """Encoded inputs of every variable of a block, or the first of them."""
    wanted = block.feature_rows[:, :number]
    rows = features.index_select(0, wanted.reshape(-1))
    return rows.view(*wanted.shape, features.shape[1])


def _mask_of(block: Block, known: Known) -> Tensor | None:
    if known is None:
        return None
    return known[block.slots].view(block.size, block.num_inputs, known.shape[1])


def _terms_of(block: int, context: Context | None) -> Tensor | None:
    return None if context is None else context.of_block(block)


class _Networks(nn.Module):
    """The networks of one block. Axes: variable, logit or hidden unit, input, feature, column."""

    def __init__(
        self,
        block: Block,
        hidden: int,
        depth: int,
        activation: Activation,
        takes_masks: bool,
        num_context: int,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        size, logits, inputs = block.size, block.num_logits, block.num_inputs
        features = inputs * block.num_features
        scale, device = 1 / math.sqrt(max(inputs, 1)), block.inputs.device

        def normal(*shape: int, scale: float) -> nn.Parameter:
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float32, device="cpu")
            return nn.Parameter((drawn * scale).to(device))

        def zeros(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(*shape, dtype=torch.float32, device=device))

        self.activation = activation
        self.first = normal(size, hidden, features, scale=scale)
        self.first_bias = normal(size, hidden, 1, scale=0.5)
        self.second: nn.Parameter | None = None
        self.second_bias: nn.Parameter | None = None
        if depth == 2:
            self.second = normal(size, hidden, hidden, scale=1 / math.sqrt(hidden))
            self.second_bias = zeros(size, hidden, 1)
        # The last layer starts at zero, so that training starts from the log-factors alone.
        self.last = zeros(size, logits, hidden)
        self.last_bias = zeros(size, logits, 1)
        self.bypass = zeros(size, logits, features)
        self.first_mask: nn.Parameter | None = None
        self.bypass_mask: nn.Parameter | None = None
        self.first_context: nn.Parameter | None = None
        self.bypass_context: nn.Parameter | None = None
        if num_context:
            self.first_context = normal(size, hidden, num_context, scale=num_context**-0.5)
            self.bypass_context = zeros(size, logits, num_context)
        if takes_masks:
            self.first_mask = normal(size, hidden, inputs, scale=scale)
            self.bypass_mask = zeros(size, logits, inputs)

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        context: Tensor | None = None,
        members: Tensor | None = None,
    ) -> Float[Tensor, "variable logit batch"]:
        before, linear = self._first_layer(inputs, mask, context, members)
        hidden, last = self._activated(before, members), _some(self.last, members)
        return torch.baddbmm(_some(self.last_bias, members), last, hidden) + linear

    def with_flips(
        self,
        inputs: Tensor,
        moves: Tensor,
        mask: Tensor | None,
        context: Tensor | None,
        is_compiled: bool,
    ) -> tuple[Float[Tensor, "variable logit batch"], Float[Tensor, "variable input logit batch"]]:
        size, num_inputs, num_features, batch = moves.shape
        hidden, logits = self.first.shape[1], self.last.shape[1]
        flipped = num_inputs * num_features  # context comes after these
        before, linear = self._first_layer(inputs, mask, context, None)
        base = torch.baddbmm(self.last_bias, self.last, self._activated(before, None)) + linear
        if mask is not None:
            moves = moves * mask[:, :num_inputs, None]
        first = self.first[..., :flipped].view(size, hidden, num_inputs, num_features)
        bypass = self.bypass[..., :flipped].view(size, logits, num_inputs, num_features)
        if num_features == 1:
            linear_change = bypass * moves.squeeze(2)[:, None]
        else:
            linear_change = torch.einsum("vlif,vifb->vlib", bypass, moves)
        if num_features == 1 and self.second is None:
            moved = flipped_units(
                before,
                first.squeeze(3),
                moves.squeeze(2),
                self.last,
                self.activation,
                is_compiled=is_compiled,
            )
        else:
            change = (
                first * moves.squeeze(2)[:, None]
                if num_features == 1
                else torch.einsum("vhif,vifb->vhib", first, moves)
            )
            after = (before[:, :, None] + change).reshape(size, hidden, num_inputs * batch)
            moved = torch.bmm(self.last, self._activated(after, None))
        moved = moved.view(size, logits, num_inputs, batch) + linear_change
        return base, (moved + (linear + self.last_bias)[:, :, None]).transpose(1, 2)

    def _activated(self, before: Tensor, members: Tensor | None) -> Tensor:
        """The last hidden units, from the pre-activations of the first."""
        hidden = self._act(before)
        if self.second is None or self.second_bias is None:
            return hidden
        second, bias = _some(self.second, members), _some(self.second_bias, members)
        return self._act(torch.baddbmm(bias, second, hidden))

    def _act(self, before: Tensor) -> Tensor:
        return activated(before, self.activation)

    def _first_layer(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        context: Tensor | None,
        members: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Pre-activations of the hidden units, and the linear bypass."""
        if mask is not None:
            inputs = inputs * mask[:, :, None]
        flat = inputs.flatten(1, 2)
        before = torch.baddbmm(_some(self.first_bias, members), _some(self.first, members), flat)
        linear = torch.bmm(_some(self.bypass, members), flat)
        if mask is not None and self.first_mask is not None and self.bypass_mask is not None:
            before = torch.baddbmm(before, _some(self.first_mask, members), mask)
            linear = torch.baddbmm(linear, _some(self.bypass_mask, members), mask)
        if context is not None:
            before = before + context[:, : before.shape[1]]
            linear = linear + context[:, before.shape[1] :]
        return before, linear

    def context_terms(
        self, features: Float[Tensor, "context batch"]
    ) -> Float[Tensor, "variable term batch"]:
        """What the context adds to the hidden units, then what it adds to the logits."""
        if self.first_context is None or self.bypass_context is None:
            size, hidden, logits = len(self.first), self.first.shape[1], self.last.shape[1]
            return features.new_zeros(size, hidden + logits, features.shape[1])
        both = [  # each weight is read where it is: there are many more weights than terms
            (weights.flatten(0, 1) @ features).view(*weights.shape[:2], features.shape[1])
            for weights in (self.first_context, self.bypass_context)
        ]
        return torch.cat(both, dim=1)


def _some(weights: Tensor, members: Tensor | None) -> Tensor:
    return weights if members is None else weights.index_select(0, members)
