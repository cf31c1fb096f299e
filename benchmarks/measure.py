"""Measure a piece of work in a process of its own: wall-clock, CPU seconds and peak memory.

Each contender runs in a fresh process, so that one's memory is not counted as another's, and
contenders take turns, so that a busy neighbour hits all of them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def _memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def load_ours() -> None:
    """In the child, before the clock: ask two small things, for parts come when first used."""
    import deltaai

    model = deltaai.zoo.ising_lattice(side=3, sigma=0.2, seed=0)
    deltaai.exact(model).marginals()
    deltaai.query(model)


def work(prepare: Callable[[], Callable[[], object]]) -> None:
    """In the child: prepare, then time the work; print one JSON line.

    Memory is the peak during the work less what the process held before it.
    """
    run = prepare()
    before = _memory("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = _memory("VmHWM")
    line = {"wall": wall, "cpu": cpu, "memory": max(peak - before, 0), "result": result}
    print("\n" + json.dumps(line))


def child(arguments: list[str], timeout: float = 1200) -> dict | None:
    """In the parent: run this script again with other arguments; None if it failed."""
    command = [sys.executable, sys.argv[0], *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-2000:])
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(values: list[float], unit: str = "") -> str:
    """Write median and range."""
    if len(values) == 1:
        return f"{values[0]:.3g}{unit}"
    return f"{statistics.median(values):.3g}{unit} ({min(values):.3g} to {max(values):.3g})"


def ratios(theirs: list[float], ours: list[float]) -> list[float]:
    """Ratio in each round, so that both sides saw the same neighbours."""
    return [a / b for a, b in zip(theirs, ours, strict=True)]


def header(title: str) -> None:
    """Print what a reader needs to repeat the run."""
    shown = " ".join(["python", *sys.argv])
    print(
        f"### {title}\n\n`{shown}`, {datetime.date.today()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}\n"
    )
