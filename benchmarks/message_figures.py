"""Samplers of wide models that begin at messages: how even their weights are, and when.

Each case is trained by ``fit`` with its defaults in a process of its own, on one thread, within a
limit of memory. A line says what messages alone give (the estimate before the first update), when
the effective sample size was first at each figure to reach, and what 10,000 fresh samples of the
end have. Seconds are from the call of ``fit`` on: of the processor, and of the clock. ``--without``
does the same without messages, for comparison.

    python benchmarks/message_figures.py [--only NAMES] [--seeds 1] [--without]
"""

from __future__ import annotations

import argparse
import sys
import time

from measure import child, header, work

GIB = 2**30
# Model, limit of memory, most seconds of training, and (effective sample size, seconds) to reach.
CASES = {
    "lattice 32, sigma .2": ("ising_lattice", 32, 0.2, 2 * GIB, 60, [(0.9, 5), (0.98, 60)]),
    "lattice 64, sigma .2": ("ising_lattice", 64, 0.2, 2 * GIB, 300, [(0.65, 20), (0.9, 300)]),
    "lattice 128, sigma .2": ("ising_lattice", 128, 0.2, 4 * GIB, 900, [(0.1, 60), (0.5, 900)]),
    "lattice 32, sigma .5": ("ising_lattice", 32, 0.5, 2 * GIB, 300, [(0.3, 300)]),
    "lattice 16, sigma 1": ("ising_lattice", 16, 1.0, 2 * GIB, 30, [(0.5, 3), (0.97, 30)]),
    "lattice 24, sigma 1": ("ising_lattice", 24, 1.0, 2 * GIB, 300, [(0.3, 300)]),
    "lattice 16, sigma 2": ("ising_lattice", 16, 2.0, 2 * GIB, 300, [(0.3, 300)]),
    "torus 16, sigma 1": ("ising_torus", 16, 1.0, 2 * GIB, 300, []),
    "lattice 64, sigma .5": ("ising_lattice", 64, 0.5, 2 * GIB, 600, []),
    "factor lattice 32": ("factor_lattice", 32, 0.5, 2 * GIB, 300, []),
    "Potts lattice 16, 3 states": ("potts", 16, 0.5, 2 * GIB, 300, []),
}
SAMPLES = 10_000


def model_of(name, seed):
    import deltaai as dai

    kind, side, sigma, *_ = CASES[name]
    if kind == "potts":
        return dai.zoo.potts_lattice(side=side, states=3, sigma=sigma, seed=seed)
    return getattr(dai.zoo, kind)(side=side, sigma=sigma, seed=seed)


def measured(name, seed, has_messages):
    """Train once; every estimate with its seconds, and what fresh samples say."""
    import torch

    import deltaai as dai

    torch.set_num_threads(1)
    *_, memory, seconds, _ = CASES[name]
    model = model_of(name, seed)
    # What is compiled once for an installation is no part of what is measured.
    dai.fit(dai.zoo.ising_lattice(side=20, sigma=0.2, seed=9), steps=2, progress=False)

    def run():
        wall, cpu, seen = time.perf_counter(), time.process_time(), []

        def watch(progress):
            if progress.estimate is not None:
                passed = time.process_time() - cpu, time.perf_counter() - wall
                seen.append((*passed, progress.estimate.ess_fraction, progress.step))

        sampler = dai.fit(
            model,
            seed=seed,
            memory_limit=memory,
            time_limit=seconds,
            message_entries=None if has_messages else 0,
            progress=False,
            watch=watch,
        )
        history = sampler.history
        if history and history[0]["step"] == 0:  # before the first update
            seen.insert(0, (history[0]["seconds"],) * 2 + (history[0]["ess"], 0))
        passed = time.process_time() - cpu, time.perf_counter() - wall
        found = sampler.posterior({}, SAMPLES, torch.Generator().manual_seed(seed)).estimate
        return {
            "seen": seen,
            "passed": passed,
            "ess": found.ess_fraction,
            "log_partition": found.log_partition,
            "stderr": found.stderr,
            "khat": found.khat,
            "entries": sampler.spec.message_entries,
        }

    return run


def line(name, seed, has_messages):
    arguments = ["--measure", name, "--seeds", str(seed)] + ([] if has_messages else ["--without"])
    done = child(arguments, timeout=3600)
    if done is None:
        return f"| {name} | {seed} | failed |"
    found = done["result"]
    seen, cells = found["seen"], []
    for figure, _ in CASES[name][5]:
        first = next((one for one in seen if one[2] >= figure), None)
        words = "not reached" if first is None else f"{first[0]:.1f} / {first[1]:.1f}"
        cells.append(f"{figure:.0%}: {words}")
    begun = f"{seen[0][2]:.1%} ({seen[0][0]:.1f})" if seen and seen[0][3] == 0 else ""
    end = f"{found['ess']:.1%}, k-hat {found['khat']:.2f}"
    log_partition = f"{found['log_partition']:.3f} ± {found['stderr']:.3f}"
    last = max((one[3] for one in seen), default=0)
    spent = f"{found['passed'][0]:.0f} / {found['passed'][1]:.0f}"
    return (
        f"| {name} | {seed} | {begun} | {'; '.join(cells)} | {last} | {spent} | {end} | "
        f"{log_partition} | {done['memory'] / 2**20:.0f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--without", action="store_true", help="no messages")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        work(lambda: measured(options.measure, options.seeds, not options.without))
        return
    header("Samplers that begin at messages")
    print(
        "| model | seed | ESS of messages alone (s) | first at, CPU s / wall s | updates | "
        "s in all | ESS at the end | log Z | peak, MiB |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in options.only:
        for seed in range(options.seeds):
            print(line(name, seed, not options.without), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
