"""What every E-step answers: draws of latents for rows, and a loss of q at them.

All E-steps share p, q, the policy and the loop; one differs from another in where latents come from
(``draw``) and in what makes q better (``loss``). The M-step is the same for all: p is improved on
what was drawn, by its weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.learning.em.config import LatentConfig
from deltaai.learning.em.latent_model import LatentModel, Rows
from deltaai.sampling import Orders, Paths, Policy


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of the data.

    Parameters
    ----------
    numbers : which they are.
    rows : their values, zero or one.
    """

    numbers: Int[Tensor, "batch"]
    rows: Rows


@dataclass(frozen=True, eq=False)
class Draws:
    """Latents that were drawn for rows.

    Parameters
    ----------
    paths : latents, with their orders and rows.
    weights : what each counts in the update of p; they sum to one.
    """

    paths: Paths
    weights: Float[Tensor, "batch"]

    @classmethod
    def even(cls, paths: Paths, num_left_out: int = 0) -> Draws:
        """Draws that all count the same, but for the first so many of each order."""
        shape, device = (len(paths.dags), paths.each), paths.columns.device
        weights = torch.ones(shape, dtype=torch.float64, device=device)
        weights[:, : min(num_left_out, paths.each - 1)] = 0
        return cls(paths, (weights / weights.sum()).flatten())


@dataclass(frozen=True, eq=False)
class Parts:
    """What an E-step works on.

    Parameters
    ----------
    model, posterior : p and q.
    orders : in which q draws.
    config : the settings.
    num_rows : rows of the data.
    generator : randomness of what the step learns besides q.
    """

    model: LatentModel
    posterior: Proposal
    orders: Orders
    config: LatentConfig
    num_rows: int
    generator: torch.Generator

    def policy(self, each: int) -> Policy:
        """How q draws: a share of those that it learns from, the first of each order, is flattened.

        Parameters
        ----------
        each : draws of an order that q learns from.
        """
        share = self.config.tempered_share
        return Policy(self.config.temperature, num_tempered=math.ceil(share * each))


Drawn = TypeVar("Drawn")


class EStep(ABC, Generic[Drawn]):
    """One way to draw latents for rows, and to improve q."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @abstractmethod
    def draw(self, batch: Batch, generator: torch.Generator) -> Drawn:
        """Draw latents for rows."""

    @abstractmethod
    def loss(self, draws: Drawn, generator: torch.Generator) -> Float[Tensor, ""]:
        """What q is to lower."""

    @abstractmethod
    def model_loss(self, draws: Drawn) -> Float[Tensor, ""]:
        """What p is to lower: less its log-likelihood at the draws (key ``lvm-gradient``)."""

    def begin(self, batch: Batch, generator: torch.Generator) -> None:
        """Look at some rows before the first update."""

    def redraw(self, seed: int) -> None:
        """Take new orders, if there are many."""

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Groups for an optimiser of what it learns besides q: nothing, mostly."""
        return []

    def state(self) -> dict[str, Any]:
        """What the rest of a run depends on, besides p and q."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put that back."""
