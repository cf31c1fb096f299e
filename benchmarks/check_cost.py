"""What the default check of a sampled answer costs, and how small a missing part it sees.

Models of up to 256 variables, mild to peaked, sparse to dense; no sampler is needed for this: the
second opinion knows nothing of one.
"""

from __future__ import annotations

import time

import numpy as np
import torch

import deltaai as dai
from deltaai.trust.opinions import second_opinion
from measure import header


def dense(num_spins: int, sigma: float, seed: int):
    """Every spin coupled to every other, as in a Hopfield or Sherrington-Kirkpatrick model."""
    rng = np.random.default_rng(seed)
    names = [f"x{number}" for number in range(num_spins)]
    scale = sigma / np.sqrt(num_spins)
    couplings = [
        dai.SpinCoupling(names[a], names[b], float(scale * rng.normal()))
        for a in range(num_spins)
        for b in range(a)
    ]
    fields = [dai.SpinField(name, float(0.3 * rng.normal())) for name in names]
    return dai.FactorGraph([dai.Variable(name) for name in names], couplings + fields)


def models():
    zoo = dai.zoo
    for sigma in (0.2, 0.5, 1.0, 2.0):
        yield f"Ising lattice 16 x 16, sigma {sigma}", zoo.ising_lattice(16, sigma, 0)
    for sigma in (0.5, 1.0):
        yield f"Ising torus 16 x 16, sigma {sigma}", zoo.ising_torus(16, sigma, 0)
    for side, sigma in ((14, 2.0), (16, 2.0), (16, 3.0)):
        for seed in range(3):
            name = f"Ising torus {side} x {side}, sigma {sigma}, seed {seed}"
            yield name, zoo.ising_torus(side, sigma, seed)
    for sigma in (0.5, 1.0, 2.0, 3.0):
        yield f"Potts lattice 16 x 16, 4 states, sigma {sigma}", zoo.potts_lattice(16, 4, sigma, 0)
    for sigma in (0.5, 1.0):
        yield f"factor lattice 16 x 16, sigma {sigma}", zoo.factor_lattice(16, sigma, 0)
    for count, scale in ((400, 1.0), (600, 2.0)):
        model = zoo.random_factor_graph(
            num_variables=200, num_factors=count, max_arity=3, max_states=3, scale=scale, seed=0
        )
        yield f"{count} random factors of three, 200 variables, scale {scale}", model
    for size, sigma in [(50, 0.5), (50, 1.0), (50, 2.0), (100, 1.0), (200, 1.0)]:
        yield f"complete graph of {size} spins, sigma {sigma}", dense(size, sigma, 0)


def main() -> None:
    torch.set_num_threads(1)
    header("Cost and sight of the default check")
    print("| model | by | CPU seconds | a missing part above |\n|---|---|---|---|")
    for name, model in models():
        start = time.process_time()
        found = second_opinion(model, {}, torch.Generator().manual_seed(0))
        seconds = time.process_time() - start
        share = "none" if found is None else f"{100 * found.visible_share:.2g} %"
        print(f"| {name} | {'' if found is None else found.method} | {seconds:.2f} | {share} |")


if __name__ == "__main__":
    main()
