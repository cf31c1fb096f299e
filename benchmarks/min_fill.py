"""Min-fill elimination orders: ours against networkx, in one process, taking turns."""

from __future__ import annotations

import argparse
import time

import networkx as nx
from networkx.algorithms.approximation import treewidth_min_fill_in

from deltaai.graphs import eliminate, min_fill_order
from deltaai.models import zoo
from measure import header, ratios, spread


def timed(function):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--large-side", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    header("Min-fill order")
    graph = zoo.ising_lattice(side=options.side, sigma=1.0, seed=0).markov_graph()
    peer = nx.Graph(graph.edges().tolist())
    ours, theirs = [], []
    for _ in range(options.repeats):
        order, wall, cpu = timed(lambda: min_fill_order(graph))
        ours.append((wall, cpu))
        (their_width, _), wall, cpu = timed(lambda: treewidth_min_fill_in(peer))
        theirs.append((wall, cpu))
    width = eliminate(graph, order).width
    print(f"| {options.side} x {options.side} lattice | deltaai | networkx | ratio |")
    print("|---|---|---|---|")
    for name, column in (("wall, s", 0), ("CPU, s", 1)):
        a, b = [row[column] for row in ours], [row[column] for row in theirs]
        print(f"| {name} | {spread(a)} | {spread(b)} | {spread(ratios(b, a), 'x')} |")
    print(f"| width | {width} | {their_width} | |")
    large = zoo.ising_lattice(side=options.large_side, sigma=1.0, seed=0).markov_graph()
    order, wall, cpu = timed(lambda: min_fill_order(large))
    print(
        f"\n{options.large_side} x {options.large_side} lattice, ours alone: {wall:.2f} s wall, "
        f"{cpu:.2f} s CPU, width {eliminate(large, order).width}.\n"
    )


if __name__ == "__main__":
    main()
