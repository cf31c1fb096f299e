"""Training policies: how values are drawn while q is being trained.

The local objective is correct for states from anywhere, so a policy may explore: flatten every
conditional (temperature), or mix it with the uniform distribution. What that means for one kind of
variable is said by its head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals import Exploration, Head
from deltaai.randomness import uniform

# Draws values from a head's parameters, for pairs whose order or sub-DAG is the third argument.
Choose = Callable[[Head, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Policy:
    """How to draw a value from a conditional.

    Parameters
    ----------
    temperature : conditionals are flattened by it.
    uniform_share : share of the uniform distribution mixed into every conditional.
    tempered_share : share of samples drawn with the temperature; the others are on-policy.
    num_tempered : how many samples of each order are, in place of a share: the first ones.
    """

    temperature: float | int = 1.0
    uniform_share: float | int = 0.0
    tempered_share: float | int = 1.0
    num_tempered: int | None = None

    def prepare(
        self,
        shape: tuple[int, int],
        generator: torch.Generator | None,
        device: torch.device | str = "cpu",
    ) -> Choose:
        """Fix which samples are tempered, and return the function that draws values."""
        exploration = Exploration(float(self.temperature), float(self.uniform_share))
        scale: Tensor | None = None
        if self.temperature != 1 and (self.num_tempered is not None or self.tempered_share < 1):
            scale = self.scales(shape, generator, device)

        def choose(
            head: Head, logits: Float[Tensor, "pair logit sample"], dags: Int[Tensor, "pair"]
        ) -> Num[Tensor, "pair sample"]:
            scales = None if scale is None else scale.to(logits.dtype)[dags]
            return head.sample(logits, exploration, scales, generator)

        return choose

    def scales(
        self,
        shape: tuple[int, int],
        generator: torch.Generator | None,
        device: torch.device | str = "cpu",
    ) -> Float[Tensor, "dag sample"]:
        """What the logits of each sample are multiplied by."""
        flat = 1 / self.temperature
        if self.temperature == 1 or (self.num_tempered is None and self.tempered_share >= 1):
            return torch.full(shape, flat, dtype=torch.float32, device=device)
        if self.num_tempered is not None:
            is_first = torch.arange(shape[1], device=device) < self.num_tempered
            return torch.where(is_first, flat, 1.0).expand(shape)
        chance = uniform(shape, generator, dtype=torch.float32, device=device)
        return torch.where(chance < self.tempered_share, flat, 1.0)


ON_POLICY = Policy()
