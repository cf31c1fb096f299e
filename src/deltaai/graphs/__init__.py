"""Graphs: Markov graphs, elimination, chordal completions, junction trees, DAGs."""

from deltaai.graphs.chordal import ChordalGraph, chordal_completion, is_perfect_order
from deltaai.graphs.colouring import greedy_colouring
from deltaai.graphs.dag import Dag, moral_graph, random_dag
from deltaai.graphs.elimination import Elimination, best_elimination, eliminate, worthwhile_tries
from deltaai.graphs.junction_tree import JunctionTree, junction_tree
from deltaai.graphs.orders import (
    maximum_cardinality_order,
    min_fill_order,
    min_weight_order,
    sweep_order,
)
from deltaai.graphs.sub_dag import SubDag, random_sub_dag, random_sub_order
from deltaai.graphs.undirected import IntArray, UndirectedGraph

__all__ = [
    "ChordalGraph",
    "Dag",
    "Elimination",
    "IntArray",
    "JunctionTree",
    "SubDag",
    "UndirectedGraph",
    "best_elimination",
    "chordal_completion",
    "eliminate",
    "greedy_colouring",
    "is_perfect_order",
    "junction_tree",
    "maximum_cardinality_order",
    "min_fill_order",
    "min_weight_order",
    "moral_graph",
    "random_dag",
    "random_sub_dag",
    "random_sub_order",
    "sweep_order",
    "worthwhile_tries",
]
