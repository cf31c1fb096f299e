"""Many rows of evidence on one model: all rows at once, one at a time, and pyAgrum.

Each row observes a random set of variables at values drawn from the model, and asks for log Z and
every single marginal. All rows go through the batched engine; the others, which take one row at a
time, get the first of them. Contenders take turns, on one thread; times are CPU seconds a row.
`error` is the largest difference from the exact engine, one row at a time, over the marginals and
log Z of the first rows. pyAgrum gives marginals only.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import deltaai as dai
from deltaai.exact import RowInference
from measure import header, ratios, spread


def random_rows(model, number, lowest, highest, seed):
    """States of the model, -1 where not observed."""
    rng = np.random.default_rng(seed)
    rows = dai.exact(model).sample(number, torch.Generator().manual_seed(seed))
    for row in rows:
        size = int(rng.integers(lowest, min(highest, model.num_variables) + 1))
        hidden = np.ones(model.num_variables, dtype=bool)
        hidden[rng.choice(model.num_variables, size=size, replace=False)] = False
        row[torch.from_numpy(hidden)] = -1
    return rows


def as_evidence(model, row):
    return {model.variables[v].name: k for v, k in enumerate(row.tolist()) if k >= 0}


def one_by_one(model, rows):
    log_partition, marginals = [], []
    for row in rows:
        engine = dai.exact(model, as_evidence(model, row))
        log_partition.append(engine.log_partition())
        marginals.append(np.concatenate(list(engine.marginals().values())))
    return np.array(log_partition), np.stack(marginals)


def pyagrum(network, model, rows):
    import pyagrum

    marginals = []
    engine = pyagrum.ShaferShenoyMRFInference(network)
    for row in rows:
        engine.setEvidence(as_evidence(model, row))
        engine.makeInference()
        found = [engine.posterior(variable.name).toarray() for variable in model.variables]
        marginals.append(np.concatenate(found))
    return None, np.stack(marginals)


def batched(engine, rows):
    answers = engine.answer(rows)
    return answers.log_partition.numpy(), answers.marginals.numpy()


def error(found, truth):
    """Largest difference over the rows of the truth."""
    largest = 0.0
    for one, true in zip(found, truth, strict=True):
        if one is not None:
            largest = max(largest, float(np.abs(one[: len(true)] - true).max()))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=10)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--observed", type=int, default=20, help="most variables a row observes")
    parser.add_argument("--subset", type=int, default=50, help="rows for those that take one")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header(f"Rows of evidence, {options.side} x {options.side} Ising, sigma {options.sigma}")
    model = dai.zoo.ising_lattice(side=options.side, sigma=options.sigma, seed=0)
    rows = random_rows(model, options.rows, 1, options.observed, seed=1)
    few = rows[: options.subset]

    start = time.perf_counter()
    engine = RowInference(model)
    engine.answer(few[:1])
    print(
        f"Prepared in {time.perf_counter() - start:.2f} s: width {engine.cost.width}, "
        f"{engine.rows_per_chunk} rows a chunk, {engine.cost.peak_bytes / 2**20:.0f} MiB.\n"
    )
    network = dai.to_pyagrum(model)
    contenders = {
        "RowInference, all rows": (rows, lambda: batched(engine, rows)),
        "ExactInference, one row at a time": (few, lambda: one_by_one(model, few)),
        "pyAgrum ShaferShenoy, one row at a time": (few, lambda: pyagrum(network, model, few)),
    }
    seconds = {name: [] for name in contenders}
    answers = {}
    for _ in range(options.repeats):
        for name, (given, run) in contenders.items():
            start = time.process_time()
            answers[name] = run()
            seconds[name].append((time.process_time() - start) / len(given))
    ours, truth, _ = contenders
    print("| engine | rows | ms a row | times slower than all rows at once | error |")
    print("|---|---|---|---|---|")
    for name, (given, _) in contenders.items():
        slower = spread(ratios(seconds[name], seconds[ours]))
        each = spread([1000 * second for second in seconds[name]])
        off = error(answers[name], answers[truth])
        print(f"| {name} | {len(given)} | {each} | {slower} | {off:.1e} |")


if __name__ == "__main__":
    main()
