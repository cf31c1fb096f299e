"""What every objective at full samples answers.

A new objective is one small file: a subclass with two calls. ``prepare`` takes states with their
orders and evidence and computes what does not depend on any parameter, once for all updates made
at them; ``losses`` gives one number a sample. What an objective learns besides q (log Z, a flow)
are its own parameters, with a learning rate of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.conditionals import Proposal
from deltaai.sampling import Paths

Batch = TypeVar("Batch")


class Objective(nn.Module, ABC, Generic[Batch]):
    """Losses of full samples."""

    # Columns that must share their evidence, where samples are compared with each other.
    each_evidence = 1

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups for an optimiser of what it learns besides q: nothing, mostly."""
        return []

    @abstractmethod
    def prepare(self, proposal: Proposal, paths: Paths, generator: torch.Generator | None) -> Batch:
        """Compute what the states fix, and draw what else is random."""

    @abstractmethod
    def losses(self, proposal: Proposal, batch: Batch) -> Float[Tensor, "batch"]:
        """Loss of each sample."""

    def drawn(self, batch: Batch) -> dict[str, Tensor]:
        """What ``prepare`` drew at random, for a checkpoint."""
        return {}

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> Batch:
        """Prepare a batch from a checkpoint, without drawing again."""
        return self.prepare(proposal, paths, generator)
