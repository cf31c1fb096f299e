"""What every objective at full samples answers.

A new objective is one small file: a subclass with two calls. ``prepare`` takes states with their
orders and computes what does not depend on any parameter, once for all updates made at them;
``losses`` gives one number a sample. What an objective learns besides q (log Z, a flow) are its
own parameters, with a learning rate of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Known, Proposal
from deltaai.graphs import Dag

Batch = TypeVar("Batch")


@dataclass(frozen=True, eq=False)
class Paths:
    """Full states, each filled in along an order.

    Parameters
    ----------
    columns : the states; those of the first order, then those of the second, and so on.
    dags : the orders, with equally many states each.
    known : which inputs each variable may see; ``None`` if there is one order.
    beta : inverse temperature of the target.
    """

    columns: Int[Tensor, "var batch"]
    dags: tuple[Dag, ...]
    known: Known = None
    beta: float | int = 1.0

    @property
    def each(self) -> int:
        """States of one order."""
        return self.columns.shape[1] // len(self.dags)

    def orders(self) -> Int[Tensor, "var batch"]:
        """Variables of each state in the order in which they are filled in."""
        by_dag = torch.from_numpy(np.array([dag.order for dag in self.dags], dtype=np.int64)).T
        return by_dag.repeat_interleave(self.each, dim=1)

    def ranks(self) -> Int[Tensor, "var batch"]:
        """Place of each variable in its state's order."""
        return self.orders().argsort(0)


class Objective(nn.Module, ABC, Generic[Batch]):
    """Losses of full samples."""

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
