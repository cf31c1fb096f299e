"""Graphs: Markov graphs, elimination, chordal completions, junction trees, DAGs."""

from deltaai.graphs.undirected import UndirectedGraph

__all__ = ["UndirectedGraph"]
