"""Straight motion between walls, as chains over real variables move.

A variable with an end to its support moves like a ball between walls: where it would go beyond one
it comes back, and its momentum turns around. Moving, then turning all momenta around, moving again
and turning again leads back to where one came from, and no volume is lost on the way: so a leapfrog
step that is reflected is as reversible as one on a line, and the same acceptance makes it exact.

A change of variables that does away with the ends, x = e^y or a logit, would be exact as well. But
it stretches a density that is high at an end, as those that p is cut off from often are, over an
infinite tail, and what is flat in a box is no longer flat. Reflections leave densities as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Walls:
    """The ends of some real variables' supports.

    Parameters
    ----------
    low, high : the ends, which may be infinite.
    """

    low: Float[Tensor, "real 1"]
    high: Float[Tensor, "real 1"]
    boxes: Int[Tensor, "box"]
    lower: Int[Tensor, "half"]
    upper: Int[Tensor, "other_half"]

    @classmethod
    def of(cls, low: Float[Tensor, "real"], high: Float[Tensor, "real"]) -> Walls:
        """Sort variables by which ends they have."""
        is_low, is_high = low.isfinite(), high.isfinite()
        kinds = (is_low & is_high, is_low & ~is_high, is_high & ~is_low)
        return cls(low[:, None], high[:, None], *(kind.nonzero().squeeze(1) for kind in kinds))

    def reflected(
        self, position: Float[Tensor, "real chain"], momentum: Float[Tensor, "real chain"]
    ) -> tuple[Float[Tensor, "real chain"], Float[Tensor, "real chain"]]:
        """Positions and momenta after a straight motion that took no notice of the walls.

        >>> walls = Walls.of(torch.tensor([0.0]), torch.tensor([1.0]))
        >>> walls.reflected(torch.tensor([[1.25, -0.25, 2.25]]), torch.ones(1, 3))
        (tensor([[0.7500, 0.2500, 0.2500]]), tensor([[-1., -1.,  1.]]))
        """
        position, momentum = position.clone(), momentum.clone()
        if len(self.boxes):
            low, high = self.low[self.boxes], self.high[self.boxes]
            # Unfolded, the way is straight and walls repeat: there and back is twice the width.
            along = torch.remainder(position[self.boxes] - low, 2 * (high - low))
            is_back = along > high - low
            along = torch.where(is_back, 2 * (high - low) - along, along)
            position[self.boxes] = torch.clamp(low + along, low, high)
            momentum[self.boxes] = self._turned(momentum[self.boxes], is_back)
        for rows, ends in ((self.lower, self.low), (self.upper, self.high)):
            if len(rows):
                end, sign = ends[rows], 1.0 if rows is self.lower else -1.0
                inside = sign * (position[rows] - end)
                position[rows] = end + sign * inside.abs()
                momentum[rows] = self._turned(momentum[rows], inside < 0)
        return position, momentum

    @staticmethod
    def _turned(momentum: Tensor, is_turned: Tensor) -> Tensor:
        return torch.where(is_turned, -momentum, momentum)
