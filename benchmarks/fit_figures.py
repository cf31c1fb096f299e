"""How good samplers get with the defaults of ``fit``, judged by the exact engine where it can.

`gap` is the mean NLL of 4000 exact samples minus its exact mean, in nats for the whole state; KL is
log Z minus the ELBO. One row a model, seed and kind of orders; `ok` says whether the project's
figure is met. Run all, or some with ``--only``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import torch

import deltaai as dai
from deltaai.models import zoo
from measure import header

CASES = {
    "lattice-8": ("gap", 0.01, lambda seed: zoo.ising_lattice(side=8, sigma=0.2, seed=seed)),
    "ladder-64": ("gap", 0.01, lambda seed: zoo.ising_ladder(64, sigma=0.2, seed=seed)),
    "lattice-8-many": ("many", 0.1, lambda seed: zoo.ising_lattice(side=8, sigma=0.2, seed=seed)),
    "ladder-64-many": ("many", 0.1, lambda seed: zoo.ising_ladder(64, sigma=0.2, seed=seed)),
    "lattice-8-peaked": ("gap", 0.05, lambda seed: zoo.ising_lattice(side=8, sigma=2, seed=seed)),
    "lattice-16": ("kl", 0.7, lambda seed: zoo.ising_lattice(side=16, sigma=1.0, seed=seed)),
    "factor-8": ("gap", 0.01, lambda seed: zoo.factor_lattice(side=8, sigma=0.5, seed=seed)),
    "factor-8-many": ("many", 0.1, lambda seed: zoo.factor_lattice(side=8, sigma=0.5, seed=seed)),
    "potts-6": (
        "gap",
        0.02,
        lambda seed: zoo.potts_lattice(side=6, states=3, sigma=0.5, seed=seed),
    ),
    "lattice-32": ("ess", 0.6, lambda seed: zoo.ising_lattice(side=32, sigma=0.2, seed=0)),
    "factor-32": ("ess", 0.3, lambda seed: zoo.factor_lattice(side=32, sigma=0.5, seed=0)),
    "Grids_11": ("uai", 0.1, None),
    "Grids_12": ("uai", 0.1, None),
    "Grids_15": ("uai", 0.1, None),
    "Grids_17": ("uai", 0.1, None),
}
SEEDS = {"lattice-8": 5, "ladder-64": 5, "lattice-8-many": 5, "ladder-64-many": 5}
SEEDS |= {"lattice-8-peaked": 3, "lattice-16": 3, "lattice-32": 2}


def judge(kind, figure, model, sampler, reference):
    """Return the measured text and whether the figure is met."""
    generator = torch.Generator().manual_seed(12345)
    estimate = sampler.posterior({}, 10_000, generator).estimate
    text = (
        f"log Z {estimate.log_partition:.3f} ± {estimate.stderr:.3f}, "
        f"ESS {estimate.ess_fraction:.1%}, k-hat {estimate.khat:.2f}"
    )
    if kind == "ess":
        return text, estimate.ess_fraction >= figure
    if kind == "uai":
        off = (estimate.log_partition - reference) / math.log(10)
        honest = abs(estimate.log_partition - reference) <= 3 * estimate.stderr + 0.002
        return f"log10 Z off by {off:+.4f}; {text}; honest: {honest}", abs(off) <= figure and honest
    exact = dai.exact(model)
    if kind == "kl":
        divergence = exact.log_partition() - estimate.elbo
        text = f"KL {divergence:.3f}; {text}"
        return text, divergence <= figure and estimate.ess_fraction >= 0.3
    x = exact.sample(4000, torch.Generator().manual_seed(0))
    best = -float(exact.log_prob(x).mean())
    dags = [sampler.random_order(seed) for seed in range(10 if kind == "many" else 1)]
    gaps = [-float(sampler.log_prob(x, dag=dag).mean()) - best for dag in dags]
    return f"gap {max(gaps):.4f} (worst of {len(gaps)}); {text}", max(gaps) <= figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(CASES))
    parser.add_argument("--seeds", type=int, help="at most this many seeds")
    parser.add_argument("--threads", type=int, default=1, help="for training")
    parser.add_argument("--data-dir", type=Path, help="folder that holds uai/")
    options = parser.parse_args()
    header("Samplers trained with the defaults of fit")
    print("| model | seed | orders | updates | seconds | measured | figure | met |")
    print("|---|---|---|---|---|---|---|---|")
    all_met = True
    for name in options.only:
        kind, figure, build = CASES[name]
        if kind == "uai" and options.data_dir is None:
            continue
        for seed in range(min(SEEDS.get(name, 1), options.seeds or 99)):
            reference = None
            if kind == "uai":
                path = options.data_dir / "uai" / f"{name}.uai"
                model = dai.read(path)
                reference = float(Path(f"{path}.PR").read_text().split()[-1]) * math.log(10)
            else:
                model = build(seed)
            orders = "many" if kind == "many" else "one"
            start = time.perf_counter()
            sampler = dai.fit(model, orders=orders, seed=seed, threads=options.threads)
            seconds = time.perf_counter() - start
            text, met = judge(kind, figure, model, sampler, reference)
            all_met &= met
            steps = sampler.history[-1]["step"]
            print(
                f"| {name} | {seed} | {orders} | {steps} | {seconds:.1f} | {text} | "
                f"{kind} {figure} | {'yes' if met else 'NO'} |",
                flush=True,
            )
    sys.exit(not all_met)


if __name__ == "__main__":
    main()
