"""Training policies: how states are drawn while q is being trained.

The local objective is correct for states from anywhere, so a policy may explore: flatten every
conditional (temperature), or mix it with the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import log_softmax_at, with_first

Choose = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Policy:
    """How to draw a state from logits.

    Parameters
    ----------
    temperature : logits are divided by it.
    uniform_share : share of the uniform distribution mixed into every conditional.
    tempered_share : share of samples drawn with the temperature; the others are on-policy.
    """

    temperature: float | int = 1.0
    uniform_share: float | int = 0.0
    tempered_share: float | int = 1.0

    def prepare(self, shape: tuple[int, int], generator: torch.Generator | None) -> Choose:
        """Fix which samples are tempered, and return the function that draws states."""
        scale: Tensor | None = None
        if self.temperature != 1 and self.tempered_share < 1:
            is_tempered = (
                torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
                < self.tempered_share
            )
            scale = torch.where(is_tempered, 1 / self.temperature, 1.0)

        def choose(
            logits: Float[Tensor, "pair logit sample"], dags: Int[Tensor, "pair"]
        ) -> tuple[Int[Tensor, "pair sample"], Float[Tensor, "pair sample"]]:
            drawn = logits
            if scale is not None:
                drawn = logits * scale.to(logits.dtype)[dags][:, None]
            elif self.temperature != 1:
                drawn = logits / self.temperature
            states = self._draw(drawn, generator)
            return states, log_softmax_at(logits, states)

        return choose

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> Tensor:
        pairs, num_logits, samples = logits.shape
        threshold = torch.rand(
            pairs, samples, generator=generator, dtype=logits.dtype, device="cpu"
        )
        if num_logits == 1:  # two states
            second = torch.sigmoid(logits.squeeze(1))
            if self.uniform_share:
                second = second + self.uniform_share * (0.5 - second)
            return (threshold < second).long()
        probabilities = torch.softmax(with_first(logits), dim=1)
        if self.uniform_share:
            uniform = 1 / (num_logits + 1)
            probabilities = probabilities + self.uniform_share * (uniform - probabilities)
        cumulative = probabilities.cumsum(1)
        return (cumulative[:, :-1] <= threshold[:, None] * cumulative[:, -1:]).sum(1)


ON_POLICY = Policy()
