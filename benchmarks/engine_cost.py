"""What an update, a draw and a table of cases cost beside another checkout: both in one run.

Each turn is a process of its own, on one thread, that trains a few updates and draws some samples;
CPU seconds are compared turn by turn. OLD and NEW are `src` folders of two checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

UPDATES = 48


def cases():
    import deltaai as dai

    zoo = dai.zoo
    return {
        "lattice 8 x 8": (zoo.ising_lattice(side=8, sigma=0.2, seed=0), {}),
        "lattice 8 x 8, many orders": (
            zoo.ising_lattice(side=8, sigma=0.2, seed=0),
            {"orders": "many"},
        ),
        "lattice 8 x 8, any evidence": (
            zoo.ising_lattice(side=8, sigma=0.5, seed=0),
            {"evidence": "any"},
        ),
        "factor lattice 8 x 8": (zoo.factor_lattice(side=8, sigma=1.0, seed=0), {}),
        "Potts lattice 6 x 6, 4 states": (
            zoo.potts_lattice(side=6, states=4, sigma=0.5, seed=0),
            {},
        ),
        "lattice 32 x 32": (zoo.ising_lattice(side=32, sigma=0.2, seed=0), {}),
    }


def measure():
    """CPU seconds of an update, and of 4000 samples."""
    import torch

    import deltaai as dai

    torch.set_num_threads(1)
    found = {}
    for name, (model, settings) in cases().items():

        def fit(steps, model=model, settings=settings):
            start = time.process_time()
            quiet = {"evaluate_every": 0, "target_ess": None, "polish_steps": 0, "progress": False}
            sampler = dai.fit(model, steps=steps, seed=0, **quiet, **settings)
            return sampler, time.process_time() - start

        fit(2)
        found[f"update, {name}"] = (fit(4 + UPDATES)[1] - fit(4)[1]) / UPDATES
        if not settings:
            sampler, _ = fit(2)
            sampler.sample(1000, 0)
            seconds = []
            for seed in range(5):
                start = time.process_time()
                sampler.sample(4000, seed)
                seconds.append(time.process_time() - start)
            found[f"4000 samples, {name}"] = statistics.median(seconds)
    found["1000 rows of evidence, lattice 10 x 10"] = table_seconds(dai)
    print(json.dumps(found))


def table_seconds(dai):
    """CPU seconds of a table of cases, answered exactly."""
    import numpy as np
    import torch

    model = dai.zoo.ising_lattice(side=10, sigma=0.5, seed=0)
    rng = np.random.default_rng(0)
    states = dai.exact(model).sample(1000, torch.Generator().manual_seed(0)).tolist()
    rows = []
    for state in states:
        chosen = rng.choice(model.num_variables, size=10, replace=False).tolist()
        rows.append({model.variables[v].name: state[v] for v in chosen})
    seconds = []
    for _ in range(4):
        start = time.process_time()
        dai.query_table(model, rows)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    turns = {"old": [], "new": []}
    for number in range(options.rounds):
        for which in ("old", "new") if number % 2 == 0 else ("new", "old"):
            environment = {**os.environ, "PYTHONPATH": getattr(options, which)}
            command = [sys.executable, __file__, "--measure"]
            done = subprocess.run(
                command, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, check=True
            )
            turns[which].append(json.loads(done.stdout))
    print("| what | old, ms | new, ms | new / old |\n|---|---|---|---|")
    for name in turns["old"][0]:
        old, new = ([turn[name] for turn in turns[which]] for which in ("old", "new"))
        ratios = [b / a for a, b in zip(old, new, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        middle = [1e3 * statistics.median(values) for values in (old, new)]
        print(f"| {name} | {middle[0]:.1f} | {middle[1]:.1f} | {spread} |")


if __name__ == "__main__":
    measure() if "--measure" in sys.argv else main()
