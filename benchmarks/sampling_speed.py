"""Samples per second: independent ones of a lattice sampler, effective ones of Gibbs chains.

The cost of drawing from a sampler does not depend on its training, so it is hardly trained here. An
effective sample of chains is what their autocorrelation leaves: the smallest effective sample size
over the log score and single spins, per second of running them after a burn-in that is not counted.
A sampler's own samples are to be multiplied by its ESS (94 % for the 32 x 32 lattice at sigma 0.2)
where they are weighted.
"""

from __future__ import annotations

import argparse
import time

import torch

import deltaai as dai
from deltaai.mcmc import GibbsKernel
from deltaai.metrics.chains import chain_diagnostics
from measure import header, spread


def sampler_rate(model, samples, seed):
    """Independent samples per second."""
    sampler = dai.fit(model, steps=1, evaluate_every=0, target_ess=None, target_kl=None)
    sampler.sample(10)
    start = time.perf_counter()
    sampler.sample(samples, torch.Generator().manual_seed(seed))
    return samples / (time.perf_counter() - start)


def gibbs_rate(model, chains, sweeps, seed):
    """Effective samples per second of the worst of some quantities, and its R-hat."""
    kernel, generator = GibbsKernel(model), torch.Generator().manual_seed(seed)
    state = kernel.init(chains, generator)
    for _ in range(sweeps):
        state, _ = kernel.step(state, generator)
    seconds, draws = 0.0, []
    spins = torch.arange(0, model.num_variables, max(model.num_variables // 50, 1))
    for _ in range(sweeps):
        start = time.perf_counter()
        state, _ = kernel.step(state, generator)
        seconds += time.perf_counter() - start
        score = model.log_score(state.states).double()[:, None]
        draws.append(torch.cat((score, state.columns[spins].T.double()), 1))
    found = chain_diagnostics(torch.stack(draws, 1))
    return found.worst_ess / seconds, found.worst_rhat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--chains", type=int, default=256)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Sampling speed")
    print("| lattice | sampler, samples/s | Gibbs, effective samples/s | worst R-hat |")
    print("|---|---|---|---|")
    for side, sigma in ((32, 0.2), (16, 0.5), (16, 1.0)):
        model = dai.zoo.ising_lattice(side=side, sigma=sigma, seed=0)
        rates, effective, rhats = [], [], []
        for seed in range(options.repeats):
            rates.append(sampler_rate(model, options.samples, seed))
            rate, rhat = gibbs_rate(model, options.chains, options.sweeps, seed)
            effective.append(rate)
            rhats.append(rhat)
        print(
            f"| {side} x {side}, sigma {sigma} | {spread(rates)} | {spread(effective)} "
            f"| {max(rhats):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
