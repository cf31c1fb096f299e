"""What a phase of training works on: the part of an update that differs between objectives.

The loop in :mod:`deltaai.training.loop` knows steps, rates, clocks and files. A :class:`Task`
knows q and its objective: it draws orders and states, gives the loss at them, and judges q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.importance import ImportanceEstimate
from deltaai.sampling import Policy


class Task(ABC):
    """Draws what updates are made at, and gives their loss.

    Attributes
    ----------
    trained : everything that is trained: q, and what the objective learns besides.
    batch : what the states that were drawn last fix; ``None`` if there are none.
    """

    trained: nn.Module
    batch: Any = None

    @abstractmethod
    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups for an optimiser; some parameters may have another rate."""

    def target_parameters(self) -> Iterator[Tensor]:
        """Parameters of the target, if it learns: a checkpoint keeps them."""
        yield from ()

    @abstractmethod
    def redraw(self, rng: np.random.Generator) -> None:
        """Draw new orders, if there are several; states drawn before are forgotten then."""

    @property
    def is_drawn(self) -> bool:
        """Whether there are states to make an update at."""
        return self.batch is not None

    @abstractmethod
    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw states for the next updates, about ``size`` of them.

        Parameters
        ----------
        beta : inverse temperature that the target has for these.
        """

    @abstractmethod
    def loss(self) -> Float[Tensor, ""]:
        """Loss at the states that were drawn last."""

    @abstractmethod
    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z by q as it is, at the target's own temperature."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Orders and states in use, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up orders and states from a checkpoint; parameters are restored by then."""
