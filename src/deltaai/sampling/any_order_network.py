"""The network of any-order GFlowNets: one body, three heads.

It sees an encoded partial assignment, zero where nothing is set, and has a logit for every
(variable, value) pair, one a variable for the backward choice, and the logarithm of the flow. What
is done with these is told in :mod:`deltaai.sampling.any_order_policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from deltaai.conditionals import DenseLayers, Encoding, uniform_weights
from deltaai.errors import ModelError
from deltaai.models import Columns


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What the policy says of partial states; ``None`` for what was not asked.

    Parameters
    ----------
    log_forward : of each (variable, value) pair; minus infinity where the variable is set.
    log_backward : of each variable; minus infinity where it is not set.
    log_flow : the flow head.
    """

    log_forward: Float[Tensor, "item pair"] | None = None
    log_backward: Float[Tensor, "item var"] | None = None
    log_flow: Float[Tensor, "item"] | None = None


class AnyOrderNetwork(nn.Module):
    """Logits of the next and of the last choice, and flow, of partial assignments.

    Parameters
    ----------
    num_states : of each variable.
    hidden : units of each hidden layer.
    depth : number of hidden layers.
    is_backward_learned : whether the order of unsetting is learned; uniform if not.
    generator : randomness of the initial weights.
    """

    first_pair: Int[Tensor, "var"]
    pair_variable: Int[Tensor, "pair"]
    pair_value: Int[Tensor, "pair"]

    def __init__(
        self,
        num_states: Sequence[int],
        hidden: int = 512,
        depth: int = 3,
        *,
        is_backward_learned: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not num_states:
            raise ModelError("the model has no variables, so there is nothing to put in an order")
        self.num_states = tuple(num_states)
        self.num_variables = len(self.num_states)
        self.is_backward_learned = is_backward_learned
        self.encoding = Encoding.of(self.num_states)
        counts = torch.tensor(self.num_states, dtype=torch.long, device="cpu")
        first = counts.cumsum(0) - counts
        variable = torch.arange(len(counts), device="cpu").repeat_interleave(counts)
        self.register_buffer("first_pair", first, persistent=False)
        self.register_buffer("pair_variable", variable, persistent=False)
        value = torch.arange(len(variable), device="cpu") - first[variable]
        self.register_buffer("pair_value", value, persistent=False)
        self.body = DenseLayers(self.encoding.num_rows, hidden, depth, generator)
        num_backward = self.num_variables if is_backward_learned else 0
        self._head_sizes = [sum(self.num_states), num_backward, 1]
        shape = (sum(self._head_sizes), self.body.num_outputs)
        self.heads = nn.Parameter(uniform_weights(shape, shape[1], generator))
        self.head_biases = nn.Parameter(uniform_weights(shape[:1], shape[1], generator))
        with torch.no_grad():  # flows begin at one, or at the reward so far
            self.heads[-1] = 0
            self.head_biases[-1] = 0

    def evaluate(
        self,
        features: Float[Tensor, "item row"],
        is_set: Bool[Tensor, "item var"],
        *,
        forward: bool = False,
        backward: bool = False,
        flow: bool = False,
    ) -> Evaluation:
        """Evaluate partial states, as :meth:`features` gives them, for what is asked.

        A complete state has no next step and an empty one no last step: their entries of the
        forward and of the backward policy are finite and mean nothing.
        """
        asked = [forward, backward and self.is_backward_learned, flow]
        logits: list[Tensor | None] = [None, None, None]
        if any(asked):
            state = self.body(features)
            heads = torch.split(self.heads, self._head_sizes)
            biases = torch.split(self.head_biases, self._head_sizes)
            for place in range(3):
                if asked[place]:
                    logits[place] = functional.linear(state, heads[place], biases[place])
        forward_logits, backward_logits, log_flow = logits
        if backward and backward_logits is None:
            backward_logits = features.new_zeros(is_set.shape)
        is_closed = is_set[:, self.pair_variable]
        return Evaluation(
            None if forward_logits is None else _log_softmax(forward_logits, is_closed),
            None if backward_logits is None else _log_softmax(backward_logits, ~is_set),
            None if log_flow is None else log_flow.squeeze(1),
        )

    def features(
        self, columns: Columns, is_set: Bool[Tensor, "batch var"]
    ) -> Float[Tensor, "batch row"]:
        """Encode partial states, one row each; unset variables are zero whatever their value."""
        encoded = self.encoding.encode(columns, self.heads.dtype)[:-1].T
        return encoded * self.spread(is_set)

    def spread(self, is_set: Bool[Tensor, "item var"]) -> Bool[Tensor, "item row"]:
        """Say of each feature, not of each variable, whether it is set."""
        if self.encoding.num_rows == self.num_variables:
            return is_set
        return is_set[:, self.encoding.owners]


def _log_softmax(logits: Tensor, is_closed: Tensor) -> Tensor:
    """Log-softmax over what is not closed; over all if everything is, since NaN would spread."""
    is_left_out = is_closed & ~is_closed.all(1, keepdim=True)
    return logits.masked_fill(is_left_out, -torch.inf).log_softmax(1)
