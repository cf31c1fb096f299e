"""Recovery of couplings: what rows allow, and what a prior that rows choose adds to it.

The task is that of ``deltaai reproduce ebm-recovery``, with the structure known: a 10 x 10 torus,
one coupling strength, 2000 rows drawn exactly, -log RMSE(J) over all n² entries of J. Every
coupling is learned for itself by the exact gradient, and so the bound of Cramér and Rao holds for
the maximum of the likelihood up to its bias. A normal prior may pull couplings to zero or to their
mean; its strength is the one with which a fifth of the rows, held out, is likeliest, and the truth
has no part in that. All rows are learned from then. λ is the penalty on the mean log-likelihood: a
prior of variance 1 / (2000 λ).

    python benchmarks/ising_recovery.py [--sigmas .1 .3] [--seeds 5]
"""

from __future__ import annotations

import argparse
import math
import time

import torch

from deltaai.experiments.harness import recovery
from deltaai.learning import learn_model, learnable

SIDE, NUM_ROWS = 10, 2000
CENTRES = {"zero": (0.0005, 0.005, 0.05, 0.5), "mean": (0.005, 0.05, 0.5, 5.0, 50.0)}


def learned(start, rows, weight_decay, centre, held_out):
    """The maximum of the likelihood with a prior."""
    return learn_model(
        learnable(start),
        rows,
        gradient="exact",
        optimizer="lbfgs",
        steps=100,
        tolerance=1e-5,
        batch_size=None,
        held_out=held_out,
        evaluate_every=0,
        weight_decay=weight_decay,
        decay_to=centre,
    )


def chosen(start, rows, centre):
    """The strength with which rows that are held out are likeliest."""
    found = []
    for weight_decay in CENTRES[centre]:
        result = learned(start, rows, weight_decay, centre, recovery.HELD_OUT)
        found.append((result.held_out.log_likelihood, weight_decay))
        start = result.model
    return max(found)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sigmas", type=float, nargs="+", default=recovery.SIGMAS)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    zero = recovery.with_strength(recovery.torus_edges(SIDE), 0.0)
    for sigma in arguments.sigmas:
        floor = -math.log(recovery.lowest_rmse(SIDE, sigma, NUM_ROWS, 50_000, 1000))
        print(f"sigma {sigma}: no unbiased estimate is above {floor:.3f} on average", flush=True)
        for seed in range(arguments.seeds):
            rows, told = recovery.exact_rows(SIDE, sigma, NUM_ROWS, seed), []
            first = learned(zero, rows, CENTRES["zero"][0], "zero", 0).model
            told.append(f"no choice of prior {recovery.score(first, SIDE, sigma):.3f}")
            for centre in CENTRES:
                began = time.process_time()
                strength = chosen(first, rows, centre)
                found = learned(first, rows, strength, centre, 0).model
                took = time.process_time() - began
                value = recovery.score(found, SIDE, sigma)
                told.append(f"to {centre} {value:.3f} (λ {strength:g}, {took:.0f} s)")
            print(f"  seed {seed}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
