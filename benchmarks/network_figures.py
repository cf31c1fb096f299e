"""Real Bayesian networks under evidence: exactly as planned, and with the exact engine off.

Rows are states drawn from the network with a random part of the variables observed. By plan the
table is answered exactly, and judged by elimination row by row. With ``method="sampler"`` one
sampler is trained for any evidence; `TV` is the total-variation error of a single marginal. A row
counts if its status is not `untrusted`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import deltaai as dai
from measure import header

NETWORKS = ("asia", "child", "alarm", "hepar2")


def rows_of(model, number, share, seed):
    """States of the network, most of them blank."""
    rng = np.random.default_rng(seed)
    states = dai.exact(model).sample(number, torch.Generator().manual_seed(seed))
    rows = torch.full_like(states, -1)
    for row, state in zip(rows, states, strict=True):
        size = int(rng.integers(1, max(int(share * model.num_variables), 1) + 1))
        seen = torch.from_numpy(rng.choice(model.num_variables, size=size, replace=False))
        row[seen] = state[seen]
    return rows


def variations(model, first, second, rows):
    """Total variation of each unobserved variable's marginal in each row; (row, variable)."""
    offsets = model.state_offsets.numpy()[:-1]
    apart = 0.5 * np.add.reduceat(np.abs(first - second), offsets, axis=1)
    return np.where(rows.numpy() < 0, apart, np.nan)


def one_by_one(model, rows):
    """Marginals of every row, by elimination."""
    found = []
    for row in rows.tolist():
        seen = {v.name: k for v, k in zip(model.variables, row, strict=True) if k >= 0}
        found.append(np.concatenate(list(dai.exact(model, seen).marginals().values())))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with the .bif or .bif.gz files")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.25, help="of variables, observed at most")
    options = parser.parse_args()
    header("Bayesian networks under evidence")
    print(
        "| network | variables | zeros | by plan: status, largest error | sampler: trusted rows "
        "| TV, mean (worst row) | largest TV | errors within 2 stderr | s to train and answer |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.networks.split(","):
        path = options.folder / f"{name}.bif"
        model = dai.read(path if path.exists() else path.with_name(f"{name}.bif.gz"))
        rows = rows_of(model, options.rows, options.share, seed=1)
        truth = one_by_one(model, rows)
        planned = dai.query_table(model, rows)
        largest = np.abs(planned.probabilities - truth).max()
        start = time.perf_counter()
        found = dai.query_table(model, rows, method="sampler", num_samples=options.samples)
        seconds = time.perf_counter() - start
        is_trusted = np.array(found.status) == "estimated"
        apart = variations(model, found.probabilities, truth, rows)[is_trusted]
        zeros = dai.check(model).num_zeros
        sure = found.errors[is_trusted] > 1e-9
        scaled = (
            np.abs(found.probabilities - truth)[is_trusted][sure] / found.errors[is_trusted][sure]
        )
        each = np.nanmean(apart, axis=1) if len(apart) else np.array([np.nan])
        print(
            f"| {name} | {model.num_variables} | {zeros} | {', '.join(set(planned.status))}, "
            f"{largest:.0e} | {is_trusted.sum()} of {len(rows)} | {each.mean():.4f} "
            f"({each.max():.4f}) | {np.nanmax(apart) if len(apart) else np.nan:.3f} "
            f"| {np.mean(scaled < 2):.1%} | {seconds:.0f} |",
            flush=True,
        )
        for doubt in sorted(set(found.doubts)):
            if doubt:
                print(f"    {found.doubts.count(doubt)} rows: {doubt}")


if __name__ == "__main__":
    main()
