"""Recovery of couplings: how near to the truth maximum likelihood comes, by each gradient.

The task of Gibbs-with-gradients (Grathwohl et al., 2021) and of energy-based GFlowNets (Zhang et
al., 2022), with the structure known: a 10 x 10 torus with p(x) ∝ exp(xᵀ J x) over spins, J = sigma
times the adjacency matrix, 2000 rows drawn exactly. J is symmetric, so xᵀ J x counts every edge
twice, and the coupling of an edge is 2 sigma. The figure is theirs,

    -log RMSE(J),   RMSE² = 1/n² Σ_ij (J_ij - Ĵ_ij)²

over all pairs i, j, though only edges are learned here: pairs that are none are zero in both. Of
the 10,000 entries 400 are edges, so the error of an edge is 5 times the RMSE. An estimate of zero
everywhere scores -log(sigma / 5): 3.9, 3.2, 2.8, 2.5 and 2.3 at sigma .1 to .5.

At sigma .5 a spin that differs from its neighbours is so rare that some edges are never broken in
2000 rows, and the maximum of the likelihood lies at infinity. So all methods have the same prior,
normal with variance 1 on the coupling of an edge; elsewhere it hardly matters. All start from the
maximum of the pseudo-likelihood. ``exact`` is the maximum itself, by L-BFGS.

    python benchmarks/ising_recovery.py [--sigmas .1 .3] [--methods exact delta gibbs] [--seed 0]
"""

from __future__ import annotations

import argparse
import math
import time

import torch

from deltaai.exact import ExactInference, RowInference
from deltaai.learning import learn_model, learnable
from deltaai.models import FactorGraph, SpinCoupling, Variable

# As far as known: -log RMSE(J) for sigma .1 to .5, with the structure unknown.
PUBLISHED = {
    "Gibbs-with-gradients": (4.8, 4.7, 3.4, 2.6, 2.3),
    "EB-GFN": (6.1, 5.1, 3.3, 2.6, 2.3),
}
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5)
METHODS = ("pseudo", "exact", "delta", "gibbs", "tempering")
SIDE, NUM_ROWS, PRIOR_VARIANCE = 10, 2000, 1.0

_DETERMINISTIC = {"optimizer": "lbfgs", "steps": 100}
SETTINGS = {
    "pseudo": _DETERMINISTIC | {"tolerance": 1e-6},
    "exact": _DETERMINISTIC | {"tolerance": 1e-5},
    "delta": {"steps": 150, "learning_rate": 0.02, "num_samples": 2000}
    | {"q_updates": 2, "q_warmup": 200, "q_ess": 0.8},
    "gibbs": {"steps": 300, "learning_rate": 0.02, "num_samples": 2000, "sweeps": 5},
    "tempering": {"steps": 100, "learning_rate": 0.02, "num_samples": 500, "sweeps": 2},
}


def torus(coupling):
    """A torus of spins, each coupled to four."""
    count = SIDE * SIDE
    right = [(v, v - v % SIDE + (v + 1) % SIDE) for v in range(count)]
    below = [(v, (v + SIDE) % count) for v in range(count)]
    variables = [Variable(f"x{v}") for v in range(count)]
    factors = [SpinCoupling(f"x{u}", f"x{v}", coupling) for u, v in right + below]
    return FactorGraph(variables, factors)


def rows_of(sigma, seed):
    """Rows drawn exactly."""
    truth = torus(2 * sigma)
    elimination = RowInference(truth).elimination
    return ExactInference(truth, elimination=elimination).sample(NUM_ROWS, seed)


def score(model, sigma):
    """-log RMSE(J) over all pairs; an edge is in the matrix twice, as J_ij and as J_ji."""
    errors = model.groups[0].strengths / 2 - sigma
    return -0.5 * math.log(float(2 * errors.square().sum()) / SIDE**4)


def learned(method, start, rows, seed):
    """The couplings by one method, and the seconds of the processor it took."""
    began = time.process_time()
    found = learn_model(
        learnable(start),
        rows,
        gradient=method,
        batch_size=None,
        held_out=0,
        evaluate_every=0,
        weight_decay=1 / (NUM_ROWS * PRIOR_VARIANCE),
        seed=seed,
        **SETTINGS[method],
    )
    return found, time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sigmas", type=float, nargs="+", default=SIGMAS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(
        f"-log RMSE(J) over all pairs, {NUM_ROWS} rows, {SIDE} x {SIDE} torus, seed "
        f"{arguments.seed}; seconds of one core, with the pseudo-likelihood that all start from"
    )
    for sigma in arguments.sigmas:
        began = time.process_time()
        rows = rows_of(sigma, arguments.seed)
        print(f"sigma {sigma}: rows in {time.process_time() - began:.1f} s", flush=True)
        if sigma in SIGMAS:
            place = SIGMAS.index(sigma)
            known = ", ".join(f"{name} {values[place]}" for name, values in PUBLISHED.items())
            print(f"  published (structure unknown): {known}")
        print(f"  zero               {-math.log(sigma / SIDE * 2):6.2f}")
        start, seconds = learned("pseudo", torus(0.0), rows, arguments.seed)
        for method in arguments.methods:
            found, took = start, 0.0
            if method != "pseudo":
                found, took = learned(method, start.model, rows, arguments.seed)
            last = {k: round(v, 3) for k, v in found.history[-1].items() if k.startswith("ess")}
            print(
                f"  {method:18s} {score(found.model, sigma):6.3f}  {seconds + took:6.1f} s  "
                f"{found.num_steps} updates {last or ''}",
                flush=True,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
