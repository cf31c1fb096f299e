"""Flows of partial samples: the network beside q that detailed balance needs.

    log F(x_1..x_i) = network(masked x)          (plus log R~ of the partial sample, see below)

The input is the encoded sample with zeros for all that is not set yet. The network is a head on
the body of the masked autoencoder if q is one, as in the paper, and has a body of its own
otherwise. Where all of a sample is set its flow is the reward, and where nothing is, log Z. Given
evidence, what is set at first is the evidence, and the flow of that is its log Z, so that the
network is asked for it too.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Conditionals, DenseLayers, MaskedAutoencoder
from deltaai.models import Columns

# Rows that the network sees at once.
_ROWS_AT_ONCE = 16384


class FlowNetwork(nn.Module):
    """Log flow of every partial sample along given orders.

    Parameters
    ----------
    conditionals : those of q, whose body is shared if it has one.
    hidden, depth : of the body otherwise.
    num_given : numbers that are given with each column, such as an image; flows depend on them.
    generator : randomness of the initial weights.
    """

    def __init__(
        self,
        conditionals: Conditionals,
        hidden: int = 128,
        depth: int = 3,
        num_given: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        layout = conditionals.layout
        self.encoding = layout.encoding
        num_inputs = self.encoding.num_rows + num_given
        is_shared = isinstance(conditionals, MaskedAutoencoder) and not conditionals.num_context
        body = (
            conditionals.body
            if isinstance(conditionals, MaskedAutoencoder) and is_shared
            else DenseLayers(num_inputs, hidden, depth, generator, layout.device)
        )
        self.is_shared = is_shared
        self._body = [body]  # in a list, so that a shared one is not registered twice
        if not self.is_shared:
            self.body = body
        # Zero: flows begin at the reward so far, or at one.
        self.head = nn.Linear(body.num_outputs, 1, dtype=torch.float32, device=layout.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self,
        features: Float[Tensor, "feature_row batch"],
        ranks: Columns,
        num_set: Int[Tensor, "step batch"],
        given: Float[Tensor, "batch feature"] | None = None,
    ) -> Float[Tensor, "step batch"]:
        """Log flow with the first so many variables of each sample's order set."""
        batch = ranks.shape[1]
        values = features[: self.encoding.num_rows].T
        row_ranks = ranks[self.encoding.owners].T
        parts = []
        for some in torch.split(num_set, max(_ROWS_AT_ONCE // max(batch, 1), 1)):
            is_set = row_ranks < some[:, :, None]
            rows = (values * is_set).flatten(0, 1)
            if given is not None:
                rows = torch.cat((rows, given.repeat(len(some), 1)), dim=1)
            parts.append(self.head(self._body[0](rows)).view(len(some), batch))
        return torch.cat([values.new_zeros(0, batch), *parts])
