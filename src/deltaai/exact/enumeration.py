"""The oracle: every joint state listed, in float64.

Slow and simple on purpose. Whatever else computes log Z, marginals, most likely states or
conditionals is judged by this on small models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError, MemoryLimitError
from deltaai.models import Evidence, FactorGraph, joint_states

MOST_STATES = 2**20


class Enumeration:
    """All joint states of a model that agree with the evidence, with their probabilities."""

    def __init__(self, model: FactorGraph, evidence: Evidence | None = None) -> None:
        sizes = model.num_states.tolist()
        observed = model.resolve_evidence(evidence)
        free = [v for v in range(model.num_variables) if v not in observed]
        count = math.prod(sizes[v] for v in free)
        if count > MOST_STATES:
            raise MemoryLimitError(len(free), 8 * count * len(sizes), 8 * MOST_STATES * len(sizes))
        self.model = model
        self.states: Int[Tensor, "joint var"] = torch.zeros(
            count, len(sizes), dtype=torch.long, device="cpu"
        )
        self.states[:, free] = joint_states([sizes[v] for v in free])
        for variable, value in observed.items():
            self.states[:, variable] = value
        with torch.no_grad():
            self.log_scores: Float[Tensor, "joint"] = model.log_score(self.states).double()

    def log_partition(self) -> float:
        """Logarithm of the sum of all states' scores."""
        total = float(torch.logsumexp(self.log_scores, 0))
        if total == -math.inf:
            raise ImpossibleEvidenceError("every joint state has probability zero")
        return total

    def probabilities(self) -> Float[Tensor, "joint"]:
        """Probability of each listed state."""
        return (self.log_scores - self.log_partition()).exp()

    def marginals(self) -> dict[str, np.ndarray]:
        """Probabilities of each variable's states."""
        return {
            variable.name: self.joint([position]).numpy()
            for position, variable in enumerate(self.model.variables)
        }

    def joint(self, variables: Sequence[int]) -> Float[Tensor, "*states"]:
        """Joint marginal of some variables, one axis each."""
        sizes = [self.model.variables[v].num_states for v in variables]
        index = torch.zeros(len(self.states), dtype=torch.long, device="cpu")
        for variable, size in zip(variables, sizes, strict=True):
            index = index * size + self.states[:, variable]
        table = torch.zeros(math.prod(sizes), dtype=torch.float64, device="cpu")
        return table.index_add(0, index, self.probabilities()).reshape(sizes)

    def map(self) -> tuple[Int[Tensor, "var"], float]:
        """A most likely state and its log score."""
        self.log_partition()
        best = int(self.log_scores.argmax())
        return self.states[best], float(self.log_scores[best])
