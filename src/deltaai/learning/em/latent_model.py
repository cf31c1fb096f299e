"""p of a latent-variable model: a Bayesian network over latents, and what they say of the rest.

    log p(h, x) = Σ_v log p(h_v | h_Pa(v)) + Σ_i log p(x_i | h_Pa(i))

The latents' part is on one orientation of the chordal graph. Both parts are families of
conditionals like those of q; in the second, latents are given and have no conditional of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import (
    Categorical,
    Conditionals,
    GivenStates,
    Layout,
    LocalConditionals,
    MaskedAutoencoder,
    Proposal,
    log_conditionals_of,
    log_ratios_of,
)
from deltaai.learning.em.config import LatentConfig
from deltaai.learning.em.structure import LatentStructure
from deltaai.models import Columns, FactorGraph, Variable
from deltaai.sampling import ON_POLICY, Orders, Schedule, sample_ancestrally

Latents = Int[Tensor, "latent batch"]
Rows = Float[Tensor, "batch observed"]
_SPARE = 150  # slots of padding that take less time than another block: latents are few


class LatentModel(nn.Module):
    """p, over latents and observed variables.

    Parameters
    ----------
    structure : who depends on whom.
    config : sizes of the networks.
    generator : randomness of the initial weights.
    """

    def __init__(
        self,
        structure: LatentStructure,
        config: LatentConfig,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.structure = structure
        self.orders = Orders.of(structure.graph, "one")
        num_latents, num_observed = structure.num_latents, structure.num_observed
        among = latent_layout(self.orders.fixed.parents, device)
        below = Layout.build(
            [GivenStates(2)] * num_latents + [Categorical(2)] * num_observed,
            [()] * num_latents + list(structure.parents),
            device=device,
        )
        self.prior = build_networks(among, config, generator=generator)
        self.likelihood = build_networks(below, config, is_observed=True, generator=generator)
        names = [Variable(f"latent_{number}", 2) for number in range(num_latents)]
        # What can be drawn from: conditionals of latents whose factors nobody else knows of.
        self._drawn = Proposal(FactorGraph(names, []).to(device), self.prior, knowledge=False)
        self._schedule = Schedule.build(self._drawn, [self.orders.fixed], masks=False)

    @property
    def empty_model(self) -> FactorGraph:
        """The latents as variables, without factors."""
        return self._drawn.target.model

    @torch.no_grad()
    def set_means(self, rows: Rows) -> None:
        """Make every observed variable independent, with its mean over some rows."""
        mean = rows.mean(0).clamp(0.01, 0.99)
        layout, first = self.likelihood.layout, self.structure.num_latents
        constants = torch.zeros(layout.num_rows, dtype=torch.float32, device=mean.device)
        constants[layout.first_row_of[first:]] = (mean / (1 - mean)).log()
        self.likelihood.set_constant(constants)

    def log_joint(self, latents: Latents, rows: Rows) -> Float[Tensor, "batch"]:
        """Log p(h, x) of each column."""
        among = _log_conditionals(self.prior, latents)
        logits = self._logits_below(latents)
        below = rows.T * logits - nn.functional.softplus(logits)
        return among.double().sum(0) + below.double().sum(0)

    def log_joints(
        self, latents: Int[Tensor, "latent state"], rows: Rows
    ) -> Float[Tensor, "batch state"]:
        """Log p(h, x) of every row with every one of some states of the latents."""
        among = _log_conditionals(self.prior, latents).double().sum(0)
        logits = self._logits_below(latents).double()
        below = rows.double() @ logits - nn.functional.softplus(logits).sum(0)
        return among + below

    @torch.no_grad()
    def log_ratios(
        self, latents: Latents, others: Latents, rows: Rows
    ) -> Float[Tensor, "latent batch"]:
        """Log p(h, x) - log p(h', x) for every latent that alone takes its value in ``others``."""
        among = _log_ratios(self.prior, latents, others)
        columns, changed = self._columns(latents, rows), self._columns(others, rows)
        below = _log_ratios(self.likelihood, columns, changed)
        return among + below[: len(latents)]

    @torch.no_grad()
    def draw(self, number: int, generator: torch.Generator | None) -> Latents:
        """Latents of p."""
        drawn, _ = sample_ancestrally(
            self._drawn, self._schedule, number, policy=ON_POLICY, generator=generator
        )
        return drawn.flatten(1)

    @torch.no_grad()
    def means(self, latents: Latents) -> Rows:
        """Probability of one of every observed variable, given latents."""
        return self._logits_below(latents).sigmoid().T

    def _logits_below(self, latents: Latents) -> Float[Tensor, "observed batch"]:
        """Logits of every observed variable, given latents."""
        layout, count = self.likelihood.layout, self.structure.num_latents
        shape, dtype = (layout.encoding.num_rows + 1, latents.shape[1]), _dtype(self.likelihood)
        features = torch.zeros(shape, dtype=dtype, device=latents.device)
        features[:count] = self.prior.layout.encoding.encode(latents, dtype)[:-1]
        return self.likelihood.logits(features)[layout.first_row_of[count:]]

    @torch.no_grad()
    def partial_log_joints(
        self, latents: Latents, ranks: Latents, rows: Rows, at_once: int = 4096
    ) -> Float[Tensor, "step batch"]:
        """Log p of what is set after 0, 1, ..., L latents, with zeros as inputs for the others.

        Parameters
        ----------
        ranks : place of each latent in its column's order.
        at_once : columns that are evaluated together.
        """
        num_latents, batch = latents.shape
        columns = self._columns(latents, rows)
        steps = torch.arange(num_latents + 1, device=latents.device)
        found = []
        for some in torch.split(steps, max(at_once // max(batch, 1), 1)):
            is_set = (ranks[:, None] < some[:, None]).flatten(1)
            again = len(some)
            among = _log_conditionals(self.prior, latents.repeat(1, again), is_set) * is_set
            is_there = torch.cat(
                (is_set, is_set.new_ones(len(columns) - num_latents, is_set.shape[1]))
            )
            below = _log_conditionals(self.likelihood, columns.repeat(1, again), is_there)
            total = among.double().sum(0) + below.double().sum(0)
            found.append(total.view(again, batch))
        return torch.cat(found)

    def _columns(self, latents: Latents, rows: Rows) -> Columns:
        """Latents, then observed variables."""
        return torch.cat((latents, rows.T.to(latents.dtype)))


def latent_layout(inputs: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Layout:
    """The layout of conditionals of latents, in few blocks."""
    return Layout.build([2] * len(inputs), inputs, device=device, spare=_SPARE)


def build_networks(
    layout: Layout,
    config: LatentConfig,
    *,
    is_observed: bool = False,
    takes_masks: bool = False,
    num_context: int = 0,
    generator: torch.Generator | None = None,
) -> Conditionals:
    """Conditionals of the family and sizes that the settings ask for."""
    if config.family == "mae":
        return MaskedAutoencoder(
            layout,
            config.hidden,
            3,
            num_context=num_context,
            is_residual=True,
            generator=generator,
        )
    return LocalConditionals(
        layout,
        config.observed_hidden if is_observed else config.hidden,
        depth=config.observed_depth if is_observed else config.depth,
        activation=config.activation,
        takes_masks=takes_masks,
        num_context=num_context,
        generator=generator,
    )


def _dtype(conditionals: Conditionals) -> torch.dtype:
    return next(iter(conditionals.parameters())).dtype


def _log_conditionals(
    conditionals: Conditionals,
    columns: Columns,
    is_set: Tensor | None = None,
) -> Float[Tensor, "var batch"]:
    """Log p of each variable's value given its parents, zeros standing for those not set."""
    layout = conditionals.layout
    features = layout.encoding.encode(columns, _dtype(conditionals))
    if is_set is not None:
        features[:-1] *= is_set[layout.encoding.owners]
    return log_conditionals_of(layout, conditionals.logits(features), columns)


def _log_ratios(
    conditionals: Conditionals,
    columns: Columns,
    others: Columns,
) -> Float[Tensor, "var batch"]:
    encode, dtype = conditionals.layout.encoding.encode, _dtype(conditionals)
    logits, flips = conditionals.logits_and_flips(encode(columns, dtype), encode(others, dtype))
    return log_ratios_of(conditionals.layout, logits, flips, columns, others)
