"""Of the 95 % intervals, how many hold the truth? Known cases of many kinds, judged exactly.

Cases are models of several families and sizes, without and with evidence, asked of samplers that
were trained for one order, for many and for any evidence. An interval counts if the answer's status
is `estimated`: of log Z, and of one marginal drawn at random (marginals of one answer are not
independent of each other).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import deltaai as dai
from measure import header

KINDS = {
    "one order": {},
    "many orders": {"orders": "many"},
    "any evidence": {"evidence": "any"},
}


def cases(seed, steps):
    """Samplers of all kinds on models with known answers: a name, and the sampler."""
    zoo = dai.zoo
    models = {
        "lattice 5, sigma 0.3": zoo.ising_lattice(side=5, sigma=0.3, seed=seed),
        "lattice 6, sigma 0.7": zoo.ising_lattice(side=6, sigma=0.7, seed=seed),
        "potts 4, sigma 0.5": zoo.potts_lattice(side=4, states=3, sigma=0.5, seed=seed),
        "factor ladder 16": zoo.factor_ladder(num_variables=16, sigma=0.5, seed=seed),
    }
    for name, model in models.items():
        for kind, given in KINDS.items():
            short = {} if steps is None else {"steps": steps}
            yield f"{name}, {kind}", dai.fit(model, seed=seed, **given, **short)


def random_evidence(model, rng, highest):
    """Evidence with values from the model; none at all in a third of the cases."""
    if rng.random() < 1 / 3:
        return {}
    state = dai.exact(model).sample(1, torch.Generator().manual_seed(int(rng.integers(2**40))))[0]
    size = int(rng.integers(1, highest + 1))
    seen = rng.choice(model.num_variables, size=size, replace=False)
    return {model.variables[v].name: int(state[v]) for v in sorted(seen)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20, help="questions for each sampler")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, help="updates of training (default: of `fit`)")
    parser.add_argument("--samples", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Coverage of 95 % intervals")
    print("| sampler | answers | untrusted | log Z inside | marginal inside |")
    print("|---|---|---|---|---|")
    inside: dict[str, list[tuple[bool, bool]]] = {}
    doubted: dict[str, int] = {}
    start = time.perf_counter()
    for seed in range(options.seeds):
        for name, sampler in cases(seed, options.steps):
            rng = np.random.default_rng(seed)
            rows = inside.setdefault(name, [])
            for number in range(options.rows):
                evidence = random_evidence(sampler.model, rng, highest=4)
                answer = dai.query(
                    sampler, evidence, num_samples=options.samples, seed=1000 * seed + number
                )
                if answer.status == "untrusted":
                    doubted[name] = doubted.get(name, 0) + 1
                    continue
                exact = dai.exact(sampler.model, evidence)
                low, high = answer.interval
                free = [v.name for v in sampler.model.variables if v.name not in evidence]
                chosen = free[int(rng.integers(len(free)))]
                least, most = (end[1] for end in answer.marginals.estimate(chosen).interval)
                rows.append(
                    (
                        low <= exact.log_partition() <= high,
                        least <= exact.marginals()[chosen][1] <= most,
                    )
                )
    for name, rows in inside.items():
        print(_line(name, rows, doubted.get(name, 0)))
    together = [row for rows in inside.values() for row in rows]
    print(_line("**all**", together, sum(doubted.values())))
    both = np.array(together).mean()
    print(f"\nBoth kinds together: {both:.1%} of {2 * len(together)} intervals. ", end="")
    print(f"{time.perf_counter() - start:.0f} s in all.")


def _line(name, rows, doubted):
    shares = np.array(rows).mean(0) if rows else (np.nan, np.nan)
    return f"| {name} | {len(rows) + doubted} | {doubted} | {shares[0]:.1%} | {shares[1]:.1%} |"


if __name__ == "__main__":
    main()
