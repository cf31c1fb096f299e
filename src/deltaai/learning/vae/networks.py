"""The networks of the autoencoder: the paper's residual layers and a linear output.

    z_1 = ELU(LayerNorm(A_1 x)),   z_i = z_(i-1) + ELU(LayerNorm(A_i z_(i-1))),   output = B z_depth

(:class:`~deltaai.conditionals.DenseLayers`; appendix, "Model architecture and training details":
three layers of 512 with ELU, layer normalisation and residual connections).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from deltaai.conditionals import DenseLayers, uniform_weights


class ResidualNetwork(nn.Module):
    """Hidden layers of one width and a linear output.

    Parameters
    ----------
    num_inputs, num_outputs : features of a row, before and after.
    hidden : units of each hidden layer.
    depth : number of hidden layers.
    generator : randomness of the initial weights.
    device : where the weights are.
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        hidden: int,
        depth: int,
        generator: torch.Generator,
        device: torch.device | str,
    ) -> None:
        super().__init__()
        self.layers = DenseLayers(num_inputs, hidden, depth, generator, device, is_residual=True)
        shape = (num_outputs, self.layers.num_outputs)
        self.weight = nn.Parameter(uniform_weights(shape, shape[1], generator, device))
        self.bias = nn.Parameter(torch.zeros(num_outputs, dtype=torch.float32, device=device))

    def forward(self, rows: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """Output for each row."""
        return functional.linear(self.layers(rows), self.weight, self.bias)
