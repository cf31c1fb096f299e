"""A 20 x 20 grid of spins, a fifth of the cells missing, learned along the gradient by Delta.

The truth is an Ising lattice of the zoo, whose rows are drawn exactly (with width 20 one tree of
cliques of the whole model takes seconds). Every pair and every place has a table that begins at
zero. The exact gradient would need such a tree for each incomplete row, in every update: it is not
switched off here, ``learn`` does not choose it.

``curve`` calls ``learn_model`` with the settings that ``learn`` takes for such a grid, and judges p
every so many updates; the clock stands still meanwhile. ``front`` calls ``dai.learn`` with the
structure "grid 20x20", as a user does. Fresh rows with as many missing cells judge: their
pseudo-likelihood; their estimated likelihood, as a run without a truth would have it; and their
exact one, to which islands of missing cells and an exact log Z of the model add up. To reach: all
within 1 % of the truth's.

    python benchmarks/wide_grid.py [--parts curve front] [--sigma 0.3] [--side 20] [--rows 2000]
        [--missing 0.2] [--steps 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import deltaai as dai
from deltaai.budget import Budget
from deltaai.exact import RowInference, exact
from deltaai.io import DataTable
from deltaai.learning import (
    GradientSettings,
    LearningRows,
    build_gradient,
    learn_model,
    learnable,
    log_pseudo_likelihood,
    plain,
)
from deltaai.learning.likelihood.held_out import HeldOut
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.islands import Islands
from deltaai.learning.undirected import _BY_DRAWS
from deltaai.models import FactorGraph, TableFactor, zoo
from measure import header

FRESH = 500


def rows_of(truth, number, missing, seed):
    """Rows drawn exactly, cells taken out at random."""
    rows = exact(truth).sample(number, seed).clone()
    generator = torch.Generator().manual_seed(seed + 1)
    rows[torch.rand(rows.shape, generator=generator) < missing] = -1
    return rows


class Judge:
    """Fresh rows, and what models say of them."""

    def __init__(self, variables, rows):
        self.rows, self.cases = rows, Cases.of(rows.numpy().astype(np.int8), variables)

    def pseudo(self, model):
        """Mean log-pseudo-likelihood."""
        return float(log_pseudo_likelihood(model, self.rows).mean())

    def exactly(self, model):
        """Mean log-likelihood, exact: rows by islands, and log Z by one tree of cliques."""
        counted = Islands(model, self.cases, Budget.of()).counted(model)
        return counted.log_likelihood / len(self.rows) - float(exact(model).log_partition())

    def estimated(self, model, seed):
        """The same as it is estimated at the end of a run, by a q that is trained for p."""
        rows = LearningRows(self.rows)
        gradient = build_gradient("delta", model, rows, GradientSettings(q_warmup=400, seed=seed))
        gradient.follow()
        return HeldOut(model, rows, gradient, torch.Generator().manual_seed(seed)).measure(
            is_last=True
        )


def shown(found):
    return f"{found.log_likelihood:.3f} ± {found.stderr:.3f}, {found.verdict}"


def curve(judge, train, truth, options):
    scopes = [list(factor.scope) for factor in truth.factors]
    zeros = [torch.zeros((2,) * len(scope), dtype=torch.float64) for scope in scopes]
    factors = [TableFactor(*pair) for pair in zip(scopes, zeros, strict=True)]
    began, away = time.perf_counter(), 0.0

    def measure(p):
        nonlocal away
        since, now = time.perf_counter(), plain(p)
        pseudo, exactly = judge.pseudo(now), judge.exactly(now)
        seconds = since - began - away
        away += time.perf_counter() - since
        print(f"| {seconds:.0f} | {pseudo:.3f} | {exactly:.3f} |", flush=True)
        return {"pseudo": pseudo, "exact": exactly, "seconds_of_learning": seconds}

    print("| seconds | pseudo-likelihood | likelihood, exact |\n|---|---|---|", flush=True)
    settings = {**_BY_DRAWS, "steps": options.steps, "weight_decay": 1 / len(train)}
    found = learn_model(
        learnable(FactorGraph(truth.variables, factors)),
        train,
        gradient="delta",
        evaluate_every=max(options.steps // 8, 1),
        seed=options.seed,
        measure=measure,
        progress=False,
        **settings,
    )
    print("held out by the run, as the run estimates it:", shown(found.held_out))
    for row in found.history:
        print(
            f"  step {row['step']}: {row['held_out']:.3f} ± {row['held_out_stderr']:.3f} "
            f"({row['held_out_status']}), q's ESS {row['ess']:.2f}, {row['ess_filled']:.2f}"
        )
    return found.model


def front(train, truth, options):
    names = tuple(variable.name for variable in truth.variables)
    labels = tuple(variable.states for variable in truth.variables)
    data = DataTable(names, labels, train.numpy().astype(np.int32))
    began, busy = time.perf_counter(), time.process_time()
    structure = f"grid {options.side}x{options.side}"
    learned = dai.learn(data, structure, seed=options.seed, progress=False)
    print(learned.report)
    print(f"{time.perf_counter() - began:.0f} s, CPU {time.process_time() - busy:.0f} s")
    return FactorGraph.from_groups(learned.variables, learned.groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=("curve", "front"))
    parser.add_argument("--sigma", type=float, default=0.3)
    parser.add_argument("--side", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--missing", type=float, default=0.2)
    parser.add_argument("--steps", type=int, default=_BY_DRAWS["steps"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    header("A grid with missing cells, learned by Delta")
    truth = zoo.ising_lattice(options.side, options.sigma, options.seed)
    rows = rows_of(truth, options.rows + FRESH, options.missing, options.seed)
    train, judge = rows[: options.rows], Judge(truth.variables, rows[options.rows :])
    engine = RowInference(truth)
    print(
        f"an exact gradient: {engine.seconds_a_row:.2f} s a row with missing cells, "
        f"{engine.cost.peak_bytes / 2**30:.1f} GiB",
        flush=True,
    )
    models = {"truth": truth}
    if "curve" in options.parts:
        models["learn_model"] = curve(judge, train, truth, options)
    if "front" in options.parts:
        models["dai.learn"] = front(train, truth, options)
    pseudo, exactly = judge.pseudo(truth), judge.exactly(truth)
    print("| p | pseudo | below the truth | exact | below | estimated |\n|---|---|---|---|---|---|")
    for name, model in models.items():
        mine = judge.pseudo(model), judge.exactly(model)
        share = [
            f"{(one - other) / one:.2%}" for one, other in zip(mine, (pseudo, exactly), strict=True)
        ]
        told = shown(judge.estimated(model, options.seed))
        print(
            f"| {name} | {mine[0]:.3f} | {share[0]} | {mine[1]:.3f} | {share[1]} | {told} |",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
