"""What `plan` predicts for wide models and `query` takes, and small networks beside pyAgrum.

Every wide model is asked once with the defaults within a limit of memory, on one thread; CPU
seconds are of the answer, planning included. Networks (with --bif) are asked for all marginals
given one finding, another each time, in turn with pyAgrum's lazy propagation on the same network,
which is built once for both.

    python benchmarks/ladder_figures.py [--only NAMES] [--bif DATA/bif]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

import deltaai as dai
from measure import header

LIMIT = 2**31
WIDE = {
    "lattice 32, sigma .2": lambda: dai.zoo.ising_lattice(side=32, sigma=0.2, seed=0),
    "lattice 32, sigma .5": lambda: dai.zoo.ising_lattice(side=32, sigma=0.5, seed=0),
    "lattice 24, sigma 1": lambda: dai.zoo.ising_lattice(side=24, sigma=1.0, seed=0),
    "torus 16, sigma 1": lambda: dai.zoo.ising_torus(side=16, sigma=1.0, seed=0),
    "Potts lattice 16, 3 states": lambda: dai.zoo.potts_lattice(
        side=16, states=3, sigma=0.5, seed=0
    ),
    "factor lattice 32": lambda: dai.zoo.factor_lattice(side=32, sigma=0.5, seed=0),
    "lattice 64, sigma .2": lambda: dai.zoo.ising_lattice(side=64, sigma=0.2, seed=0),
}
NETWORKS = ("asia", "child", "alarm", "hepar2")
TURNS = 15


def wide(names):
    print("| model | predicted, s | CPU s | wall s | log Z | ESS | k-hat | status |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        model = WIDE[name]()
        predicted = dai.plan(model, memory_limit=LIMIT).predicted_seconds
        cpu, wall = time.process_time(), time.perf_counter()
        found = dai.query(model, memory_limit=LIMIT, method="sampler", progress=False)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(
            f"| {name} | {predicted:.1f} | {cpu:.1f} | {wall:.1f} "
            f"| {found.log_partition:.3f} ± {found.stderr:.3f} | {found.ess:.0f} "
            f"| {found.khat:.2f} | {found.status} |",
            flush=True,
        )


def networks(folder):
    import pyagrum as gum

    print("\n| network | first, ms | pyAgrum | again, ms | pyAgrum | ratio, turn by turn |")
    print("|---|---|---|---|---|---|")
    for name in NETWORKS:
        model = dai.read(folder / f"{name}.bif.gz")
        network, names = dai.to_pyagrum(model), [v.name for v in model.variables]
        engine = gum.LazyPropagation(network)

        def ours(place, model=model, names=names):
            dai.query(model, {names[place]: "#0"}, progress=False)

        def theirs(place, engine=engine, names=names):
            engine.eraseAllEvidence()
            engine.addEvidence(names[place], 0)
            engine.makeInference()
            for other in names:
                engine.posterior(other)

        first, ratios, taken = [], [], []
        for turn in range(TURNS):
            pair = []
            for ask in (ours, theirs):
                begun = time.process_time()
                ask(turn % len(names))
                pair.append(1e3 * (time.process_time() - begun))
            if turn == 0:
                first = pair
            else:
                taken.append(pair)
                ratios.append(pair[0] / pair[1])
        again = [statistics.median(column) for column in zip(*taken, strict=True)]
        print(
            f"| {name} | {first[0]:.1f} | {first[1]:.1f} | {again[0]:.1f} | {again[1]:.1f} "
            f"| {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=WIDE, default=list(WIDE))
    parser.add_argument("--bif", type=Path, help="folder with networks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("What wide models and small networks take to be asked")
    # What is compiled once for an installation, or loaded, is no part of what is measured.
    dai.fit(dai.zoo.ising_lattice(side=20, sigma=0.2, seed=9), steps=2, progress=False)
    dai.query(dai.example("asia"))
    wide(options.only)
    if options.bif is not None:
        networks(options.bif)


if __name__ == "__main__":
    main()
