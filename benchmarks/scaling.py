"""Cost of a local update (one u of one sample) as the model grows, trained by sub-DAGs.

Ladders have fixed width: the cost should not grow. Lattices get wider with their size. Plans are
drawn once and serve several updates, as in training; seconds are of sampling and updating.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from deltaai.conditionals import Layout, LocalConditionals, Proposal
from deltaai.graphs import chordal_completion, min_fill_order
from deltaai.models import zoo
from deltaai.objectives.sub_dag import (
    prepare_sub_dags,
    propose_centres,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.objectives.sub_dag_plan import SubDagPlanner
from deltaai.sampling.policies import ON_POLICY
from measure import header


def peak_memory():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e6
    return 0.0


def measure(model, samples, updates, hidden):
    """Seconds to set up, to draw a plan, and per local update."""
    start = time.perf_counter()
    graph = model.markov_graph()
    order = None if model.num_variables > 5000 else min_fill_order(graph)
    chordal = chordal_completion(graph, order=order)
    layout = Layout.build(model.num_states.tolist(), list(chordal))
    generator = torch.Generator().manual_seed(0)
    conditionals = LocalConditionals(layout, hidden, takes_masks=True, generator=generator)
    proposal = Proposal(model.to(dtype=torch.float32), conditionals)
    planner = SubDagPlanner(proposal, chordal)
    optimizer = torch.optim.Adam(conditionals.parameters(), lr=1e-2)
    setup = time.perf_counter() - start
    start = time.perf_counter()
    plan = planner.draw(range(model.num_variables), np.random.default_rng(0))
    planning = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(updates):
        states = sample_sub_dags(proposal, plan, samples, policy=ON_POLICY, generator=generator)
        others = propose_centres(proposal, plan, states, generator)
        batch = prepare_sub_dags(proposal, plan, states, others)
        loss = sub_dag_residuals(proposal, plan, batch).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    seconds = (time.perf_counter() - start) / (updates * samples * model.num_variables)
    return chordal.width, setup, planning, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladders", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--sides", type=int, nargs="*", default=[8, 16, 32])
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=16)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Cost of a local update as the model grows (local networks, sub-DAGs, one thread)")
    print("| model | width | set-up, s | plan, s | µs per local update | process peak, GB |")
    print("|---|---|---|---|---|---|")
    models = [(f"ladder {n}", zoo.ising_ladder(n, sigma=0.2, seed=0)) for n in options.ladders]
    models += [
        (f"lattice {n} x {n}", zoo.ising_lattice(side=n, sigma=0.2, seed=0)) for n in options.sides
    ]
    for name, model in models:
        width, setup, planning, seconds = measure(
            model, options.samples, options.updates, options.hidden
        )
        print(
            f"| {name} | {width} | {setup:.1f} | {planning:.2f} | {1e6 * seconds:.1f} | "
            f"{peak_memory():.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
