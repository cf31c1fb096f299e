"""The structure of a latent-variable model: which latents are joined, and what sees them.

From an undirected graph over latents and observed variables, in which no two observed ones are
joined: given the latents these are independent, and p and q need

- a chordal completion of the graph among the latents, which p and q both orient;
- for every observed variable the latents next to it, its parents in p.

All variables are binary. Inside, latents are 0, ..., L-1 and observed variables L, L+1, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from deltaai.errors import GraphError
from deltaai.graphs import ChordalGraph, UndirectedGraph, chordal_completion
from deltaai.models import zoo


@dataclass(frozen=True, eq=False)
class LatentStructure:
    """Latents, and the observed variables that depend on them.

    Parameters
    ----------
    graph : chordal, over the latents.
    parents : the latents that each observed variable depends on.

    Examples
    --------
    >>> structure = LatentStructure.of_pyramid(zoo.pyramid())
    >>> structure.num_latents, structure.num_observed, structure.graph.num_edges
    (164, 784, 7990)
    """

    graph: ChordalGraph
    parents: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, graph: UndirectedGraph, latents: Sequence[int], observed: Sequence[int]
    ) -> LatentStructure:
        """Read it off a graph over both kinds of variables."""
        place = {vertex: number for number, vertex in enumerate(latents)}
        seen = set(observed)
        parents = []
        for vertex in observed:
            around = [int(other) for other in graph.neighbours(vertex)]
            joined = [other for other in around if other in seen]
            if joined:
                raise GraphError(
                    f"observed variables {vertex} and {joined[0]} are joined: given the latents "
                    "they must be independent, so take that edge out"
                )
            parents.append(tuple(sorted(place[other] for other in around)))
        # Given what is observed, latents that explain the same variable depend on each other.
        married = {pair for around in parents for pair in combinations(around, 2)}
        edges = {(int(a), int(b)) for a, b in graph.induced(latents).edges()} | married
        moral = UndirectedGraph.from_edges(len(latents), sorted(edges))
        return cls(chordal_completion(moral), tuple(parents))

    @classmethod
    def of_pyramid(cls, pyramid: zoo.Pyramid) -> LatentStructure:
        """That of a pyramid of images."""
        return cls.of(pyramid.graph, pyramid.latents, pyramid.pixels)

    @property
    def num_latents(self) -> int:
        """Number of latents."""
        return self.graph.num_vertices

    @property
    def num_observed(self) -> int:
        """Number of observed variables."""
        return len(self.parents)
