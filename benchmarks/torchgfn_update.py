"""One update of trajectory balance on a 16 x 16 Ising lattice, batch 64: ours against torchgfn.

torchgfn runs in an environment of its own, for it needs an older numpy than this package's tests:

    python -m venv peer && peer/bin/pip install -c constraints.txt torch torchgfn
    python benchmarks/torchgfn_update.py --peer-python peer/bin/python

Contenders take turns; each does some updates after one that is not counted. An update is: draw 64
samples, the loss, its gradient, a step of Adam.

- `structured`: the sampler of this package, a small network a variable, in one order and in many;
- `any-order`: the policy picks variable and value, with the same network as torchgfn's
  (hidden layers, LayerNorm, a head for every (variable, value) pair).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import torch

from deltaai.experiments.harness.samplers import any_order
from deltaai.fitting.defaults import suitable_graph, suitable_hidden
from deltaai.fitting.runs import set_up_run
from deltaai.fitting.sampler import Sampler
from deltaai.fitting.spec import SamplerSpec
from deltaai.models import zoo
from deltaai.training.config import TrainingConfig
from measure import header, ratios, spread

HIDDEN, DEPTH = 512, 3


class Enough(Exception):
    """Ends a run from inside."""


def structured(model, kind, batch):
    """Return a trainer of the structured sampler."""
    spec = SamplerSpec(orders=kind, family="local", hidden=suitable_hidden(model, "local"))
    proposal, orders = spec.build(model, suitable_graph(model))
    start = model.num_variables * math.log(2)
    config = TrainingConfig(
        objective="tb",
        steps=10_000,
        batch_size=batch,
        evaluate_every=0,
        log_partition=start,
    )
    return set_up_run(Sampler(model, proposal, orders, config, spec))


def updates(trainer, number):
    """Wall-clock and CPU seconds of some updates, after one that is not counted."""
    marks = []

    def watch(progress):
        marks.append((time.perf_counter(), time.process_time()))
        if len(marks) > number:
            raise Enough

    with suppress(Enough):
        trainer.run(watch=watch)
    (wall, cpu), (last_wall, last_cpu) = marks[0], marks[-1]
    return (last_wall - wall) / number, (last_cpu - cpu) / number


def peer(python, model, batch, number, threads):
    """Run torchgfn on the same model."""
    job = {"threads": threads, "hidden": HIDDEN, "depth": DEPTH, "batch": batch}
    job |= {"updates": number + 1, "log_partition": model.num_variables * math.log(2)}
    for group in model.groups:
        if group.arity == 2:
            job |= {"edges": group.scopes.tolist(), "couplings": group.strengths.tolist()}
        else:
            job["fields"] = group.strengths[group.scopes[:, 0].argsort()].tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        script = Path(__file__).with_name("torchgfn_peer.py")
        done = subprocess.run(
            [python, str(script), str(path)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    rows = json.loads(done.stdout.strip().splitlines()[-1])[1:]
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", required=True, help="python that has torchgfn")
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    header(f"An update of trajectory balance, {options.side} x {options.side} lattice")
    model = zoo.ising_lattice(side=options.side, sigma=0.2, seed=0)
    size, number = options.batch, options.updates
    ours = {
        "structured, one order": lambda: updates(structured(model, "one", size), 4 * number),
        "structured, many orders": lambda: updates(structured(model, "many", size), 4 * number),
        "any-order, torchgfn's network": lambda: updates(
            any_order(model, "tb", 0, {"hidden": HIDDEN, "batch": size, "steps": 0})[0], number
        ),
    }
    walls = {name: [] for name in (*ours, "torchgfn")}
    cpus = {name: [] for name in walls}
    for _ in range(options.rounds):
        for name, wall_seconds in walls.items():
            wall, cpu = (
                ours[name]()
                if name in ours
                else peer(options.peer_python, model, size, number, options.threads)
            )
            wall_seconds.append(wall)
            cpus[name].append(cpu)
    print("| sampler | seconds an update | CPU seconds | torchgfn over it (CPU) |")
    print("|---|---|---|---|")
    for name, wall in walls.items():
        times = spread(ratios(cpus["torchgfn"], cpus[name]), "x")
        print(f"| {name} | {spread(wall)} | {spread(cpus[name])} | {times} |")


if __name__ == "__main__":
    main()
