"""The most likely state: search with its bound, beside exact elimination and toulbar2.

python benchmarks/most_likely_figures.py [--only NAMES] [--seconds 30]
"""

from __future__ import annotations

import argparse
import time

import torch

import deltaai as dai
from measure import header

MODELS = {
    "lattice 12, sigma 1": lambda: dai.zoo.ising_lattice(side=12, sigma=1.0, seed=0),
    "torus 10, sigma 1": lambda: dai.zoo.ising_torus(side=10, sigma=1.0, seed=0),
    "Potts lattice 10, 3 states": lambda: dai.zoo.potts_lattice(
        side=10, states=3, sigma=1.0, seed=0
    ),
    "factor lattice 12": lambda: dai.zoo.factor_lattice(side=12, sigma=1.0, seed=0),
    "torus 16, sigma 1": lambda: dai.zoo.ising_torus(side=16, sigma=1.0, seed=0),
    "torus 18, sigma 1": lambda: dai.zoo.ising_torus(side=18, sigma=1.0, seed=0),
    "lattice 32, sigma .5": lambda: dai.zoo.ising_lattice(side=32, sigma=0.5, seed=0),
}


def found_by(model, method, seconds):
    begun = time.perf_counter()
    try:
        found = dai.most_likely(model, method=method, time_limit=seconds, memory_limit=2**31)
    except dai.NotAffordableError:
        return "not affordable"
    took = time.perf_counter() - begun
    within = "" if found.status == "exact" else f", at most {found.upper:.4f}"
    return f"{found.log_score:.4f}{within} ({took:.1f} s)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Most likely states")
    print("| model | exact | search | toulbar2 |\n|---|---|---|---|")
    for name in options.only:
        model = MODELS[name]()
        cells = [found_by(model, how, options.seconds) for how in ("exact", "search", "toulbar2")]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
