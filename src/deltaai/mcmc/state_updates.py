"""Gibbs updates of the variables with states in a model that has real ones, too.

Given the real variables, those with states are updated as in any model of states: one colour after
the other, each variable from its full conditional

    π(x_v = k | all others) ∝ exp( β Σ_{factors with v} log φ(x with x_v = k) ).

The reference of a path is uniform over states, so only β tells of it. Factors are evaluated where
the chains are, for no table lists real values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deltaai.graphs import greedy_colouring
from deltaai.mcmc.local_scores import LocalScores
from deltaai.models import Columns, FactorGraph


@dataclass(frozen=True, eq=False)
class StateUpdates:
    """A sweep over the variables with states.

    Parameters
    ----------
    members, scores : variables of one colour and number of states, and what they are drawn from.
    """

    members: tuple[torch.Tensor, ...]
    scores: tuple[LocalScores, ...]

    @classmethod
    def build(cls, model: FactorGraph) -> StateUpdates:
        """Sort the variables with states, and collect their factors."""
        members = []
        for colour in greedy_colouring(model.markov_graph()):
            counts = {v: len(model.variables[v].states) for v in colour}
            for count in sorted(set(counts.values()) - {0, 1}):
                alike = [v for v in colour if counts[v] == count]
                members.append(torch.tensor(alike, dtype=torch.long, device=model.device))
        rows = torch.arange(model.num_variables, device=model.device)
        scores = tuple(LocalScores.build(model, some, rows) for some in members)
        return cls(tuple(members), scores)

    @property
    def num_updates(self) -> int:
        """Variables that a sweep updates."""
        return sum(len(some) for some in self.members)

    def sweep(self, columns: Columns, beta: float, generator: torch.Generator) -> None:
        """Update every variable with states once, in place."""
        for some, scores in zip(self.members, self.scores, strict=True):
            columns[some] = scores.draw(columns, beta, generator)
