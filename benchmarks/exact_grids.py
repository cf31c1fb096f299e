"""log Z and all marginals of spin-glass grids: ours, pyAgrum, dwave-samplers, taking turns.

Each run is a process of its own; memory is its peak during the work. dwave's sampler computes
log Z and marginals of binary models; pyAgrum's is Shafer-Shenoy on Markov random fields.
"""

from __future__ import annotations

import argparse
import statistics

from deltaai.models import zoo
from measure import child, header, load_ours, ratios, spread, work


def ours(side):
    import deltaai

    model = zoo.spin_glass_grid(side=side, seed=0)
    load_ours()

    def run():
        engine = deltaai.exact(model)
        log_partition, marginals = engine.log_partition(), engine.marginals()
        return log_partition, float(marginals[model.variables[0].name][1])

    return run


def pyagrum(side):
    import pyagrum as gum

    import deltaai

    model = zoo.spin_glass_grid(side=side, seed=0)
    field = deltaai.to_pyagrum(model)

    def run():
        engine = gum.ShaferShenoyMRFInference(field)
        engine.makeInference()
        posteriors = [engine.posterior(variable.name) for variable in model.variables]
        return None, float(posteriors[0][1])

    return run


def dwave(side):
    import dimod
    from dwave.samplers import TreeDecompositionSampler

    model = zoo.spin_glass_grid(side=side, seed=0)
    couplings = {(c.first, c.second): -c.strength for c in model.factors if hasattr(c, "first")}
    problem = dimod.BinaryQuadraticModel.from_ising({}, couplings)

    def run():
        sampler = TreeDecompositionSampler()
        answer = sampler.sample(problem, num_reads=1, marginals=True, beta=1.0, seed=1)
        marginal = answer.info["variable_marginals"][model.variables[0].name]
        return answer.info["log_partition_function"], float(marginal)

    return run


CONTENDERS = {"deltaai": ours, "dwave-samplers": dwave, "pyAgrum": pyagrum}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[15, 17])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, side = options.child
        work(lambda: CONTENDERS[name](int(side)))
        return
    header("Exact log Z and marginals of N(0,1) spin-glass grids")
    print("| grid | library | wall, s | CPU, s | peak memory, MB | wall ratio to deltaai | log Z |")
    print("|---|---|---|---|---|---|---|")
    for side in options.sides:
        runs = {name: [] for name in options.contenders}
        for _ in range(options.repeats):
            for name in options.contenders:
                runs[name].append(child(["--child", name, str(side)]))
        for name, rows in runs.items():
            if any(row is None for row in rows):
                print(f"| {side} x {side} | {name} | failed | | | | |")
                continue
            wall = [row["wall"] for row in rows]
            base = [row["wall"] for row in runs["deltaai"]]
            memory = statistics.median(row["memory"] for row in rows) / 1e6
            log_z, _ = rows[0]["result"]
            print(
                f"| {side} x {side} | {name} | {spread(wall)} | "
                f"{spread([row['cpu'] for row in rows])} | {memory:.0f} | "
                f"{spread(ratios(wall, base), 'x')} | {'' if log_z is None else f'{log_z:.6f}'} |"
            )


if __name__ == "__main__":
    main()
