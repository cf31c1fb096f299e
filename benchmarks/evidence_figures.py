"""Posterior marginals under random evidence, judged by the exact engine.

One sampler is trained for any evidence, one without evidence. Each row observes a random set of
variables, with values from the model itself (``--values model``) or uniform ones. `TV` is the
total-variation error of a single marginal, averaged over unobserved variables and rows.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import deltaai as dai
from measure import header


def random_rows(model, number, lowest, highest, values, seed):
    """Evidence rows as mappings of names to states."""
    rng = np.random.default_rng(seed)
    states = dai.exact(model).sample(number, torch.Generator().manual_seed(seed)).numpy()
    if values == "uniform":
        states = rng.integers(0, model.num_states.numpy(), size=states.shape)
    rows = []
    for state in states:
        size = int(rng.integers(lowest, highest + 1))
        chosen = rng.choice(model.num_variables, size=size, replace=False)
        rows.append({model.variables[v].name: int(state[v]) for v in sorted(chosen)})
    return rows


def errors(truth, found, row):
    """Total variation of each unobserved variable's marginal."""
    return [0.5 * np.abs(truth[name] - found[name]).sum() for name in truth if name not in row]


def judge(sampler, model, rows, samples):
    """Mean errors without and with weights, effective sample sizes, and seconds a row."""
    plain, weighted, shares, seconds, off = [], [], [], 0.0, []
    generator = torch.Generator().manual_seed(0)
    for row in rows:
        start = time.perf_counter()
        found = sampler.posterior(row, samples, generator)
        marginals = found.refined(generator).marginals()
        seconds += time.perf_counter() - start
        exact = dai.exact(model, row)
        truth = exact.marginals()
        weighted.append(np.mean(errors(truth, marginals, row)))
        plain.append(np.mean(errors(truth, found.marginals(is_weighted=False), row)))
        estimate = found.estimate
        shares.append(estimate.ess_fraction)
        off.append(abs(estimate.log_partition - exact.log_partition()) / estimate.stderr)
    return plain, weighted, shares, seconds / len(rows), off


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=8)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--steps", type=int, help="updates of training (default: from the model)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Posterior marginals under random evidence")
    model = dai.zoo.ising_lattice(side=options.side, sigma=options.sigma, seed=0)
    given = {} if options.steps is None else {"steps": options.steps}
    start = time.perf_counter()
    trained = dai.fit(model, evidence="any", most_observed=20, seed=0, **given)
    seconds = time.perf_counter() - start
    plain = dai.fit(model, seed=0)
    print(f"Trained for any evidence in {seconds:.0f} s.\n")
    print(
        "| sampler | values | observed | TV, unweighted | TV, weighted | ESS, median (worst) |",
        end="",
    )
    print(" log Z within 2 standard errors | s a row |")
    print("|---|---|---|---|---|---|---|---|")
    for name, sampler, highest in (("any evidence", trained, 20), ("no evidence", plain, 5)):
        for values in ("model", "uniform"):
            rows = random_rows(model, options.rows, 1, highest, values, seed=1)
            found = judge(sampler, model, rows, options.samples)
            unweighted, weighted, shares, each, off = found
            print(
                f"| {name} | {values} | 1 to {highest} | {np.mean(unweighted):.4f} "
                f"| {np.mean(weighted):.4f} | {np.median(shares):.0%} ({min(shares):.1%}) "
                f"| {np.mean(np.array(off) < 2):.0%} | {each:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
