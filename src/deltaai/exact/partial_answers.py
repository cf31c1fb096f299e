"""What is known of some of a model's states, so that answers for parts can be joined.

Used where a model is answered in parts, one for each state of some variables
(:mod:`deltaai.exact.conditioning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deltaai.models import Reduction

Marginals = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Span:
    """A part of the work, as fractions of all of it."""

    start: float
    length: float

    def part(self, number: int, of: int) -> Span:
        """One of several equal parts of it."""
        return Span(self.start + self.length * number / of, self.length / of)


@dataclass(frozen=True)
class PartialAnswer:
    """Log Z of some of the states, and the marginals among these."""

    log_partition: float
    marginals: Marginals

    def plus(self, other: PartialAnswer) -> PartialAnswer:
        """Answer for the states of both: Z adds up, marginals mix in proportion to it."""
        total = float(np.logaddexp(self.log_partition, other.log_partition))
        mine = np.exp(self.log_partition - total)
        others = np.exp(other.log_partition - total)
        return PartialAnswer(
            total,
            {v: mine * row + others * other.marginals[v] for v, row in self.marginals.items()},
        )

    def expanded(self, reduction: Reduction) -> PartialAnswer:
        """Answer for the model that was reduced."""
        return PartialAnswer(
            self.log_partition + reduction.log_scale, reduction.expand_marginals(self.marginals)
        )


@dataclass(frozen=True)
class PartialBest:
    """A most likely one of some of the states, with its log score."""

    log_score: float
    labels: Mapping[str, str | float]

    def plus(self, other: PartialBest) -> PartialBest:
        """The better one of both."""
        return self if self.log_score >= other.log_score else other

    def expanded(self, reduction: Reduction) -> PartialBest:
        """A state of the model that was reduced."""
        original = reduction.original
        fixed = {
            name: original.variables[original.index(name)].states[state]
            for name, state in reduction.fixed.items()
        }
        return PartialBest(self.log_score + reduction.log_scale, {**self.labels, **fixed})
