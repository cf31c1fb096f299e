"""Hidden layers as the paper has them: {Linear -> LayerNorm -> ReLU} x depth.

For images the paper has others: ELU in place of ReLU, and each layer but the first is added to what
it was given (appendix, "Model architecture and training details").
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class DenseLayers(nn.Module):
    """A stack of hidden layers of one width.

    Parameters
    ----------
    num_inputs : features of a row.
    hidden : units of each layer.
    depth : number of layers.
    generator : randomness of the initial weights.
    is_residual : ELU, and layers that add to what they are given.
    """

    def __init__(
        self,
        num_inputs: int,
        hidden: int,
        depth: int,
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
        *,
        is_residual: bool = False,
    ) -> None:
        super().__init__()
        self.is_residual = is_residual
        sizes = [num_inputs, *[hidden] * depth]
        self._layers = [
            _Layer(before, after, generator, device) for before, after in pairwise(sizes)
        ]
        self.layers = nn.ModuleList(self._layers)
        self.num_outputs = sizes[-1]

    def forward(self, rows: Float[Tensor, "item input"]) -> Float[Tensor, "item hidden"]:
        """Features of each row."""
        for number, layer in enumerate(self._layers):
            if not self.is_residual:
                rows = layer(rows).relu()
            elif number == 0:
                rows = functional.elu(layer(rows))
            else:
                rows = rows + functional.elu(layer(rows))
        return rows


class _Layer(nn.Module):
    """Linear -> LayerNorm."""

    def __init__(
        self,
        before: int,
        after: int,
        generator: torch.Generator | None,
        device: torch.device | str,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(uniform_weights((after, before), before, generator, device))
        self.bias = nn.Parameter(uniform_weights((after,), before, generator, device))
        self.norm = nn.LayerNorm(after, dtype=torch.float32, device=device)

    def forward(self, rows: Float[Tensor, "item before"]) -> Float[Tensor, "item after"]:
        normal: Tensor = self.norm(functional.linear(rows, self.weight, self.bias))
        return normal


def uniform_weights(
    shape: tuple[int, ...],
    inputs: int,
    generator: torch.Generator | None,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Initial weights as ``torch.nn.Linear`` draws them, from a generator that is passed."""
    bound = 1 / math.sqrt(max(inputs, 1))
    drawn = torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
    return ((drawn * 2 - 1) * bound).to(device)
