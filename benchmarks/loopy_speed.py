"""Loopy belief propagation on an Ising lattice: ours against PGMax, iteration for iteration.

PGMax needs an older jax, so it runs in an environment of its own:

    python -m venv peer && peer/bin/pip install pgmax==0.6.1 jax==0.4.35 jaxlib==0.4.35
    cd benchmarks && python loopy_speed.py --peer-python peer/bin/python

Both do the same number of damped parallel sum-product iterations at temperature 1, with the same
damping in log space, so the marginals agree iterate by iterate: up to rounding, PGMax's being
single precision and ours double. Contenders take turns, each in a fresh process. Not timed: for
PGMax building the graph and compiling; for ours building the model. Timed: for PGMax the compiled
run alone; for ours the whole call, log Z included. With ``--one-core`` all processes share one
core. ``ours, general`` is the path for factors of any shape; ``ours, to convergence`` stops by
itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import torch

from deltaai.messages import loopy_belief_propagation
from deltaai.messages.loopy.log_odds import LogOddsMessages
from deltaai.models import zoo
from measure import header, ratios, spread


def ours(kind, job):
    """In a process of its own: seconds of each run, iterations done, marginals, log Z."""
    torch.set_num_threads(1)
    model = zoo.ising_lattice(side=job["side"], sigma=job["sigma"], seed=0)
    settings = {"num_iterations": job["iterations"], "damping": job["damping"], "tolerance": 0}
    if kind == "to convergence":
        settings |= {"tolerance": 1e-6, "num_iterations": 10_000}
    if kind == "general":
        LogOddsMessages.fits = staticmethod(lambda potentials: False)
    rows = []
    for _ in range(job["repeats"] + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        found = loopy_belief_propagation(model, **settings)
        rows.append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        "rows": rows[1:],
        "iterations": found.num_iterations,
        "residual": found.residual,
        "log_partition": found.log_partition,
        "marginals": [float(row[1]) for row in found.marginals().values()],
    }


def peer_job(job):
    """Couplings and fields of the model, for a process that has no deltaai."""
    model = zoo.ising_lattice(side=job["side"], sigma=job["sigma"], seed=0)
    told = dict(job)
    for group in model.groups:
        if group.arity == 2:
            told |= {"edges": group.scopes.tolist(), "couplings": group.strengths.tolist()}
        else:
            told["fields"] = group.strengths[group.scopes[:, 0].argsort()].tolist()
    return told


def run(command):
    """Run a contender and read the last line that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", help="python that has PGMax")
    parser.add_argument("--side", type=int, default=50)
    parser.add_argument("--sigma", type=float, default=0.3)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--damping", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=5, help="runs timed in each process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one-core", action="store_true", help="pin every process to one core")
    parser.add_argument("--kind", help="internal: be one of our contenders")
    options = parser.parse_args()
    names = ("side", "sigma", "iterations", "damping", "repeats")
    job = {name: getattr(options, name) for name in names}
    if options.kind:
        print(json.dumps(ours(options.kind, job)))
        return
    if not options.peer_python:
        parser.error("--peer-python is needed")
    if options.one_core:  # children inherit it
        busy = psutil.cpu_percent(interval=1, percpu=True)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0), key=lambda core: busy[core])})

    shared = [word for name in names for word in (f"--{name}", str(job[name]))]
    commands = {
        f"ours, {kind}": [sys.executable, sys.argv[0], "--kind", kind, *shared]
        for kind in ("log-odds", "general", "to convergence")
    }
    walls = {name: [] for name in (*commands, "PGMax")}
    cpus = {name: [] for name in walls}
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(peer_job(job)))
        script = Path(__file__).with_name("pgmax_peer.py")
        commands["PGMax"] = [options.peer_python, str(script), str(path)]
        for _ in range(options.rounds):
            for name, command in commands.items():
                answers[name] = run(command)
                wall, cpu = zip(*answers[name]["rows"], strict=True)
                walls[name].append(statistics.median(wall))
                cpus[name].append(statistics.median(cpu))

    side = options.side
    header(f"Belief propagation on a {side} x {side} Ising lattice, sigma {options.sigma:g}")
    print(
        f"{options.iterations} iterations, damping {options.damping:g}, {options.rounds} rounds in "
        f"turn, median of {options.repeats} runs in each, "
        f"{'one core' if options.one_core else 'all cores'}.\n"
    )
    print(
        "| method | iterations | wall | CPU | PGMax over it (wall) | PGMax over it (CPU) "
        "| largest difference of a marginal from PGMax's |\n|---|---|---|---|---|---|---|"
    )
    theirs = np.array(answers["PGMax"]["marginals"])
    for name in walls:
        slower = [spread(ratios(clock["PGMax"], clock[name]), "x") for clock in (walls, cpus)]
        seconds = [spread(clock[name], " s") for clock in (walls, cpus)]
        furthest = np.abs(np.array(answers[name]["marginals"]) - theirs).max()
        iterations = answers[name].get("iterations", options.iterations)
        print(f"| {name} | {iterations} | {' | '.join(seconds + slower)} | {furthest:.1e} |")
    print(
        f"\nPGMax's first run, with compiling, took {answers['PGMax']['compiling']:.3g} s and "
        "is not counted. Our log Z: "
        + ", ".join(
            f"{answer['log_partition']:.4f} ({name}, residual {answer['residual']:.1e})"
            for name, answer in answers.items()
            if name != "PGMax"
        )
    )


if __name__ == "__main__":
    main()
