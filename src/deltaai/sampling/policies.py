"""Training policies: how values are drawn while q is being trained.

The local objective is correct for states from anywhere, so a policy may explore: flatten every
conditional (temperature), or mix it with the uniform distribution. What that means for one kind of
variable is said by its head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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
        if self.temperature != 1 and self.num_tempered is not None:
            is_first = torch.arange(shape[1], device=device) < self.num_tempered
            scale = torch.where(is_first, 1 / self.temperature, 1.0).expand(shape)
        elif self.temperature != 1 and self.tempered_share < 1:
            chance = uniform(shape, generator, dtype=torch.float32, device=device)
            scale = torch.where(chance < self.tempered_share, 1 / self.temperature, 1.0)

        def choose(
            head: Head, logits: Float[Tensor, "pair logit sample"], dags: Int[Tensor, "pair"]
        ) -> Int[Tensor, "pair sample"]:
            scales = None if scale is None else scale.to(logits.dtype)[dags]
            return head.sample(logits, exploration, scales, generator)

        return choose


ON_POLICY = Policy()
