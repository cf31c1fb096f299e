"""Any-order GFlowNets: a policy that picks which variable to set next, and its value.

    P_F(s' | s) = softmax over all (v, k), v unset in s, of logits_vk(s)
    P_B(s | s') = 1 / (number of variables set in s'),  or a softmax over them

A state s is a partial assignment, s' is s with x_v = k besides (Zhang, Malkin, Liu, Volokhova,
Courville and Bengio, *Generative flow networks for discrete probabilistic modeling*, 2022; in the
paper, paragraph "Delta-AI vs. any-order GFlowNets"). One network sees the encoded state, zero
where nothing is set, and has a head for every (variable, value) pair, one for the backward choice
and one for the logarithm of the flow F(s).

A full assignment x can be reached in n! orders, so q(x) = Σ_τ P_F(τ) has no closed form;
:meth:`AnyOrderPolicy.log_prob` estimates it. How the policy is trained is told in
:mod:`deltaai.objectives.any_order`. Nothing here looks at the factors of a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from deltaai.conditionals.dense import DenseLayers, uniform_weights
from deltaai.conditionals.encoding import Encoding
from deltaai.errors import ModelError, StateError
from deltaai.sampling.policies import ON_POLICY, Policy

# Rows that the network sees at once: bounds what is not kept for gradients.
_ROWS_AT_ONCE = 8192


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


@dataclass(frozen=True, eq=False)
class LogPaths:
    """Log probabilities along complete paths.

    Parameters
    ----------
    log_forward : log P_F of each step.
    log_backward : log P_B of undoing each step.
    log_flow : the flow head at each state, the empty and the complete one too, if it was asked.
    """

    log_forward: Float[Tensor, "step batch"]
    log_backward: Float[Tensor, "step batch"]
    log_flow: Float[Tensor, "state batch"] | None = None


class AnyOrderPolicy(nn.Module):
    """Forward and backward policy, and flow, of partial assignments.

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
        counts = torch.tensor(self.num_states)
        first = counts.cumsum(0) - counts
        variable = torch.arange(len(counts)).repeat_interleave(counts)
        self.register_buffer("first_pair", first, persistent=False)
        self.register_buffer("pair_variable", variable, persistent=False)
        value = torch.arange(len(variable)) - first[variable]
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

    # -- the network ---------------------------------------------------------------------------

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
        self, columns: Int[Tensor, "var batch"], is_set: Bool[Tensor, "batch var"]
    ) -> Float[Tensor, "batch row"]:
        """Encode partial states, one row each; unset variables are zero whatever their value."""
        encoded = self.encoding.encode(columns, self.heads.dtype)[:-1].T
        return encoded * self._spread(is_set)

    # -- sampling ------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self, num_samples: int, policy: Policy = ON_POLICY, generator: torch.Generator | None = None
    ) -> tuple[Int[Tensor, "var batch"], Int[Tensor, "var batch"]]:
        """Draw complete states; also return the rank of each variable in its sample's order.

        The temperature divides all logits of a step, and the uniform share is spread evenly over
        the (variable, value) pairs that a step can choose from.
        """
        device = self.heads.device
        columns = torch.zeros(self.num_variables, num_samples, dtype=torch.long, device=device)
        ranks = torch.zeros_like(columns)
        is_set = torch.zeros(num_samples, self.num_variables, dtype=torch.bool, device=device)
        chance = torch.rand(num_samples, 1, generator=generator)
        is_tempered = (chance < policy.tempered_share).to(device)
        scale = torch.where(is_tempered, 1 / policy.temperature, 1.0).to(self.heads.dtype)
        here = torch.arange(num_samples, device=device)
        for step in range(self.num_variables):
            found = self.evaluate(self.features(columns, is_set), is_set, forward=True)
            assert found.log_forward is not None
            probabilities = (found.log_forward * scale).softmax(1)
            if policy.uniform_share:
                is_open = (~is_set[:, self.pair_variable]).to(probabilities.dtype)
                uniform = is_open / is_open.sum(1, keepdim=True)
                probabilities += policy.uniform_share * (uniform - probabilities)
            pair = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
            variable = self.pair_variable[pair]
            columns[variable, here] = self.pair_value[pair]
            ranks[variable, here] = step
            is_set[here, variable] = True
        return columns, ranks

    @torch.no_grad()
    def sample_backward(
        self, columns: Int[Tensor, "var batch"], generator: torch.Generator | None = None
    ) -> Int[Tensor, "var batch"]:
        """Draw, for complete states, orders in which they could have been set, from P_B."""
        self._check(columns)
        if not self.is_backward_learned:
            return torch.rand(columns.shape, generator=generator).argsort(0).to(columns.device)
        ranks = torch.zeros_like(columns, dtype=torch.long)
        is_set = torch.ones_like(columns.T, dtype=torch.bool)
        here = torch.arange(columns.shape[1], device=columns.device)
        for step in reversed(range(self.num_variables)):
            found = self.evaluate(self.features(columns, is_set), is_set, backward=True)
            assert found.log_backward is not None
            last = torch.multinomial(found.log_backward.exp(), 1, generator=generator).squeeze(1)
            ranks[last, here] = step
            is_set[here, last] = False
        return ranks

    # -- probabilities -------------------------------------------------------------------------

    def log_paths(
        self,
        columns: Int[Tensor, "var batch"],
        ranks: Int[Tensor, "var batch"],
        *,
        flow: bool = False,
    ) -> LogPaths:
        """Evaluate every step of given paths, all of them as rows of one batch."""
        self._check(columns, ranks)
        num_steps, batch = columns.shape
        order = ranks.argsort(0)
        chosen = self.first_pair[order] + columns.long().gather(0, order)
        none = order.new_zeros(1, batch)  # no step leads to the first state or from the last
        next_pair = torch.cat((chosen, none)).flatten()
        last_set = torch.cat((none, order)).flatten()
        encoded = self.encoding.encode(columns, self.heads.dtype)[:-1].T
        rows = torch.arange((num_steps + 1) * batch, device=columns.device)
        parts = []
        for some in torch.split(rows, _ROWS_AT_ONCE):
            step, column = some // batch, some % batch
            is_set = ranks.T[column] < step[:, None]
            features = encoded[column] * self._spread(is_set)
            found = self.evaluate(features, is_set, forward=True, backward=True, flow=flow)
            assert found.log_forward is not None
            assert found.log_backward is not None
            picked = [
                found.log_forward.gather(1, next_pair[some, None]).squeeze(1),
                found.log_backward.gather(1, last_set[some, None]).squeeze(1),
            ]
            parts.append(picked if found.log_flow is None else [*picked, found.log_flow])
        log_forward, log_backward, *log_flow = (
            torch.cat(part).view(num_steps + 1, batch) for part in zip(*parts, strict=True)
        )
        return LogPaths(log_forward[:-1], log_backward[1:], log_flow[0] if flow else None)

    @torch.no_grad()
    def log_prob(
        self,
        columns: Int[Tensor, "var batch"],
        num_paths: int,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch"]:
        """Estimate log q(x) by the log of the mean of P_F(τ) / P_B(τ | x) over paths τ ~ P_B.

        The mean is unbiased for q(x), so its logarithm is below log q(x) in expectation: negative
        log-likelihoods from it are upper bounds, which tighten as ``num_paths`` grows.
        """
        if num_paths < 1:
            raise StateError(f"num_paths is {num_paths}: at least one path a state is needed")
        repeated = columns.repeat_interleave(num_paths, 1)
        paths = self.log_paths(repeated, self.sample_backward(repeated, generator))
        log_ratio = (paths.log_forward - paths.log_backward).double().sum(0)
        by_state = log_ratio.view(columns.shape[1], num_paths)
        return by_state.logsumexp(1) - math.log(num_paths)

    def _spread(self, is_set: Bool[Tensor, "item var"]) -> Bool[Tensor, "item row"]:
        """Say of each feature, not of each variable, whether it is set."""
        if self.encoding.num_rows == self.num_variables:
            return is_set
        return is_set[:, self.encoding.owners]

    def _check(self, columns: Tensor, ranks: Tensor | None = None) -> None:
        counts = torch.tensor(self.num_states, device=columns.device)[:, None]
        if len(columns) != len(counts) or bool(((columns < 0) | (columns >= counts)).any()):
            raise StateError(
                f"columns of shape {tuple(columns.shape)} are no states of {len(counts)} variables "
                f"with at most {max(self.num_states)} states: pass complete states, (var, batch)"
            )
        if ranks is not None:
            places = torch.arange(len(counts), device=ranks.device)[:, None]
            if bool((ranks.sort(0).values != places).any()):
                raise StateError(
                    f"ranks must give each column's variables the places 0 to {len(counts) - 1}, "
                    "each once: pass what sample or sample_backward returned"
                )


def _log_softmax(logits: Tensor, is_closed: Tensor) -> Tensor:
    """Log-softmax over what is not closed; over all if everything is, since NaN would spread."""
    is_left_out = is_closed & ~is_closed.all(1, keepdim=True)
    return logits.masked_fill(is_left_out, -torch.inf).log_softmax(1)
