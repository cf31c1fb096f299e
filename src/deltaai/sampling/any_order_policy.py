"""Any-order GFlowNets: a policy that picks which variable to set next, and its value.

    P_F(s' | s) = softmax over all (v, k), v unset in s, of logits_vk(s)
    P_B(s | s') = 1 / (number of variables set in s'),  or a softmax over them

A state s is a partial assignment, s' is s with x_v = k besides (Zhang, Malkin, Liu, Volokhova,
Courville and Bengio, *Generative flow networks for discrete probabilistic modeling*, 2022; in the
paper, paragraph "Delta-AI vs. any-order GFlowNets").

A full assignment x can be reached in n! orders, so q(x) = Σ_τ P_F(τ) has no closed form;
:meth:`AnyOrderPolicy.log_prob` estimates it. How the policy is trained is told in
:mod:`deltaai.objectives.any_order_balance`. Nothing here looks at the factors of a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.errors import StateError
from deltaai.models import Columns
from deltaai.sampling.any_order_network import AnyOrderNetwork
from deltaai.sampling.policies import ON_POLICY, Policy

# Rows that the network sees at once: bounds what is not kept for gradients.
_ROWS_AT_ONCE = 8192


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


class AnyOrderPolicy(AnyOrderNetwork):
    """Forward and backward policy over partial assignments; parameters are the network's."""

    # -- sampling ------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self, num_samples: int, policy: Policy = ON_POLICY, generator: torch.Generator | None = None
    ) -> tuple[Columns, Columns]:
        """Draw complete states; also return the rank of each variable in its sample's order.

        The temperature divides all logits of a step, and the uniform share is spread evenly over
        the (variable, value) pairs that a step can choose from.
        """
        device = self.heads.device
        columns = torch.zeros(self.num_variables, num_samples, dtype=torch.long, device=device)
        ranks = torch.zeros_like(columns)
        is_set = torch.zeros(num_samples, self.num_variables, dtype=torch.bool, device=device)
        chance = torch.rand(num_samples, 1, generator=generator, dtype=torch.float32, device="cpu")
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
        self, columns: Columns, generator: torch.Generator | None = None
    ) -> Columns:
        """Draw, for complete states, orders in which they could have been set, from P_B."""
        self._check(columns)
        if not self.is_backward_learned:
            return (
                torch.rand(columns.shape, generator=generator, dtype=torch.float32, device="cpu")
                .argsort(0)
                .to(columns.device)
            )
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
        columns: Columns,
        ranks: Columns,
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
            features = encoded[column] * self.spread(is_set)
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
        columns: Columns,
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

    def _check(self, columns: Tensor, ranks: Tensor | None = None) -> None:
        counts = torch.tensor(self.num_states, device=columns.device, dtype=torch.long)[:, None]
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
