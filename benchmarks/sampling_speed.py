"""Independent samples per second of a lattice sampler; training does not change the cost."""

from __future__ import annotations

import argparse
import time

import torch

import deltaai as dai
from measure import header, spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    model = dai.zoo.ising_lattice(side=options.side, sigma=0.2, seed=0)
    sampler = dai.fit(model, steps=1, evaluate_every=0, target_ess=None, target_kl=None)
    header("Sampling speed")
    rates = []
    for seed in range(options.repeats):
        start = time.perf_counter()
        sampler.sample(options.samples, torch.Generator().manual_seed(seed))
        rates.append(options.samples / (time.perf_counter() - start))
    print(
        f"{options.samples} samples of a {options.side} x {options.side} sampler on one thread: "
        f"{spread(rates)} samples/s."
    )


if __name__ == "__main__":
    main()
