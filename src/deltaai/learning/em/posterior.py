"""q of a latent-variable model: latents given what is observed.

q is a product of conditionals on an I-map of the latents' graph, given the row as context: a
network turns the row into features, once, which enter the first layer of every conditional.
:class:`LatentTarget` is p as q's objectives see it: log p(h, x) for the row that is given.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.conditionals import DenseLayers, Proposal, inputs_of
from deltaai.errors import ConfigError
from deltaai.graphs import UndirectedGraph, chordal_completion
from deltaai.learning.em.config import LatentConfig
from deltaai.learning.em.latent_model import (
    LatentModel,
    Latents,
    Rows,
    build_networks,
    latent_layout,
)
from deltaai.models import PartialEnergy, Target
from deltaai.sampling import Orders


class LatentTarget(Target):
    """Log p(h, x), with x what is given with each column.

    Parameters
    ----------
    latent_model : p; it learns while q follows.
    """

    def __init__(self, latent_model: LatentModel) -> None:
        super().__init__(latent_model.empty_model)
        self.latent_model = latent_model

    @property
    def moment(self) -> tuple[int, ...]:
        """Numbers that change when p has moved."""
        return tuple(value._version for value in self.latent_model.parameters())

    def tempered(self, beta: float | int) -> Target:
        """Only at its own temperature."""
        if beta == 1:
            return self
        raise ConfigError(f"beta is {beta}: a latent-variable model has one temperature, 1")

    @torch.no_grad()
    def log_scores(self, columns: Latents, given: Rows | None = None) -> Float[Tensor, "batch"]:
        """Log p(h, x) of each column."""
        return self.latent_model.log_joint(columns, _there(given))

    def log_changes(
        self, columns: Latents, others: Latents, dtype: torch.dtype, given: Rows | None = None
    ) -> Float[Tensor, "latent batch"]:
        """Change of log p(h, x) when one latent takes its value in ``others``, for each."""
        return -self.latent_model.log_ratios(columns, others, _there(given)).to(dtype)

    def partial_log_scores(
        self, columns: Latents, ranks: Latents, kind: PartialEnergy, given: Rows | None = None
    ) -> Float[Tensor, "step batch"]:
        """Log p of what is set so far, with zeros for the rest."""
        if kind != "zero-filled":
            raise ConfigError(f"partial_energy is {kind!r}: here it is 'zero-filled'")
        return self.latent_model.partial_log_joints(columns, ranks, _there(given))


class RowFeatures(nn.Module):
    """Features of a row: hidden layers over its values, zero and one as -1 and +1.

    Parameters
    ----------
    num_values : values of a row.
    width, depth : of the hidden layers; with none the values themselves are the features.
    """

    def __init__(
        self,
        num_values: int,
        width: int,
        depth: int,
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.layers = DenseLayers(num_values, width, depth, generator, device)
        self.num_features = self.layers.num_outputs

    def forward(self, rows: Rows) -> Float[Tensor, "batch feature"]:
        """Features of each row."""
        features: Tensor = self.layers(2 * rows - 1)
        return features


def build_posterior(
    model: LatentModel,
    config: LatentConfig,
    *,
    is_factorised: bool = False,
    generator: torch.Generator | None = None,
) -> tuple[Proposal, Orders]:
    """Return an untrained q, and the orders in which it draws.

    Parameters
    ----------
    model : p.
    config : family, sizes and orders.
    is_factorised : whether latents are independent given the row.
    """
    structure = model.structure
    graph, kind = structure.graph, config.orders
    if is_factorised:  # one order of a graph without edges does for all
        graph, kind = chordal_completion(UndirectedGraph.from_edges(graph.num_vertices, [])), "one"
    orders = Orders.of(graph, kind, config.num_orders)
    device = model.prior.layout.device
    inputs = inputs_of(orders.structure)
    layout = latent_layout(inputs, device)
    # The masked autoencoder has layers of its own, and sees the row as it is.
    depth = 0 if config.family == "mae" else config.encoder_depth
    seen = RowFeatures(structure.num_observed, config.features, depth, generator, device)
    networks = build_networks(
        layout,
        config,
        takes_masks=kind == "many",
        num_context=seen.num_features,
        generator=generator,
    )
    target = LatentTarget(model)
    half = torch.bfloat16 if config.context_precision == "bfloat16" else None
    made = Proposal(target, networks, knowledge=False, context_network=seen, context_dtype=half)
    return made, orders


def _there(given: Rows | None) -> Rows:
    if given is None:
        raise ConfigError("log p(h, x) needs x: pass the rows as context")
    return given
