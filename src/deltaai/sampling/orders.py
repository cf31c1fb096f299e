"""Where orders come from: one fixed DAG, or a stream of random ones.

Both are orientations of the same chordal graph. Under one order a conditional's inputs are its
parents; under many they are all its neighbours, and each draw says which of them are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from deltaai.graphs import ChordalGraph, Dag, random_dag

OrdersKind = Literal["one", "many"]


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders of a model's variables to be trained.

    Parameters
    ----------
    graph : chordal completion of the model's Markov graph.
    kind : ``"one"`` for the fixed DAG, ``"many"`` for random ones.
    fixed : the DAG sampled from by default; the only one if there is one order.
    num_together : how many random DAGs share a batch.
    """

    graph: ChordalGraph
    kind: OrdersKind
    fixed: Dag
    num_together: int = 16

    @classmethod
    def of(cls, graph: ChordalGraph, kind: OrdersKind, num_together: int = 16) -> Orders:
        """Take the elimination order backwards as the fixed DAG: few levels, shared by all."""
        return cls(graph, kind, Dag(graph, graph.order[::-1]), num_together)

    @property
    def structure(self) -> Dag | ChordalGraph:
        """The one order, or the graph that all of them orient."""
        return self.fixed if self.kind == "one" else self.graph

    def draw(self, rng: np.random.Generator) -> list[Dag]:
        """Orders for the next updates."""
        if self.kind == "one":
            return [self.fixed]
        return [random_dag(self.graph, rng) for _ in range(self.num_together)]
