"""Tables of a network from rows with missing cells: time and likelihood beside pyAgrum's EM.

Both learn from the same rows with the same structure and the same prior, one pseudo-row a table
(pyAgrum does not start without one), and are judged by the exact likelihood of the rows and of
fresh, complete ones that neither has seen. CPU seconds, one thread; reading the rows is counted for
neither.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import deltaai as dai
from deltaai.budget import Budget
from deltaai.io import DataTable
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.expectation import CaseCounter
from measure import header


def missing_rows(model, number, share, seed):
    """Rows of a model with cells taken out at random, and as many complete ones."""
    states = dai.exact(model).sample(2 * number, torch.Generator().manual_seed(seed))
    rows, fresh = states[:number], states[number:]
    gone = torch.rand(rows.shape, generator=torch.Generator().manual_seed(seed + 1)) < share
    return rows.masked_fill(gone, -1), fresh


def likelihood(model, rows):
    """Mean log-likelihood of rows, exactly: by one tree of cliques, or island by island."""
    if bool((rows >= 0).all()):
        return float(model.log_score(rows).mean())
    cases = Cases.of(rows.numpy().astype(np.int32), model.variables)
    return CaseCounter(cases, Budget.of(), may_draw=False).log_likelihood(model)


def ours(model, rows, steps, tolerance):
    labels = tuple(variable.states for variable in model.variables)
    names = tuple(variable.name for variable in model.variables)
    data = DataTable(names, labels, rows.numpy().astype(np.int32))
    start = time.process_time()
    settings = {"prior": 1, "held_out": 0, "steps": steps, "tolerance": tolerance}
    learned = dai.learn(data, model, **settings)
    return learned, time.process_time() - start, learned.report.steps


def pyagrums(model, rows, epsilon):
    import pyagrum

    skeleton = dai.to_pyagrum(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w") as stream:
            print(",".join(v.name for v in model.variables), file=stream)
            for row in rows.tolist():
                cells = (
                    "?" if k < 0 else v.states[k] for k, v in zip(row, model.variables, strict=True)
                )
                print(",".join(cells), file=stream)
        learner = pyagrum.BNLearner(str(path), skeleton, ["?"])
        learner.setNumberOfThreads(1)
        learner.useBDeuPrior(1.0)
        learner.useEM(epsilon)
        start = time.process_time()
        found = learner.learnParameters(skeleton.dag())
        seconds = time.process_time() - start
        return dai.from_pyagrum(found), seconds, learner.EMnbrIterations()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="Bayesian networks")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--missing", type=float, default=0.2)
    parser.add_argument("--epsilon", type=float, default=1e-3, help="pyAgrum's rule to stop")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Learning tables with missing cells")
    print("| network | by | steps | CPU s | log-likelihood of a row | of a fresh row |")
    print("|---|---|---|---|---|---|")
    for path in options.files:
        model = dai.read(path)
        for number in range(options.rounds):
            rows, fresh = missing_rows(model, options.rows, options.missing, number)
            name = path.name.split(".")[0]
            for by in ("ours",) if options.no_peer else ("ours", "pyAgrum"):
                if by == "ours":
                    found = ours(model, rows, options.steps, options.tolerance)
                else:
                    found = pyagrums(model, rows, options.epsilon)
                learned, seconds, steps = found
                judged = f"{likelihood(learned, rows):.5f} | {likelihood(learned, fresh):.5f}"
                print(f"| {name} | {by} | {steps} | {seconds:.2f} | {judged} |", flush=True)
            judged = f"{likelihood(model, rows):.5f} | {likelihood(model, fresh):.5f}"
            print(f"| {name} | the truth | | | {judged} |", flush=True)


if __name__ == "__main__":
    main()
