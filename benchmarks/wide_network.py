"""A diagnosis network too wide for any table, half of whose cells are missing, learned by draws.

Two layers: causes, and findings with a few causes each (noisy-or, with a leak). The truth draws the
rows. Given what a row shows, the missing causes are joined by findings, so that neither one tree of
cliques nor islands fit, and ``dai.learn`` draws missing cells from a q that follows the tables.
Judged by complete fresh rows, whose likelihood is exact (a product of conditionals), and by fresh
rows with as many missing cells, whose likelihood is an estimate with a status.

    python benchmarks/wide_network.py [--causes 80] [--findings 160] [--parents 4] [--missing 0.5]
        [--rows 2000] [--seed 0]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import deltaai as dai
from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError
from deltaai.exact import RowInference
from deltaai.io import DataTable
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.drawn_counts import DrawnCounts
from deltaai.learning.tables.expectation import empty_network, from_known
from deltaai.learning.tables.islands import Islands
from deltaai.learning.tables.prior import Prior
from deltaai.learning.tables.row_filler import RowFiller
from deltaai.models import ConditionalTable, FactorGraph, Variable
from measure import header

FRESH = 1000


def truth_of(causes, findings, each, seed):
    """Causes that are there or not, and findings that some of them bring about."""
    rng = np.random.default_rng(seed)
    variables = [Variable(f"cause{k}") for k in range(causes)]
    variables += [Variable(f"finding{k}") for k in range(findings)]
    tables = []
    for variable in variables[:causes]:
        chance = rng.uniform(0.1, 0.5)
        tables.append(conditional(variable.name, [], np.array([1 - chance, chance])))
    for variable in variables[causes:]:
        parents = sorted(rng.choice(causes, each, replace=False).tolist())
        stays, leak = rng.uniform(0.1, 0.4, each), rng.uniform(0.02, 0.1)
        table = np.empty((2,) * each + (2,))
        for states in np.ndindex(*(2,) * each):
            is_off = (1 - leak) * np.prod(stays ** np.array(states))
            table[states] = is_off, 1 - is_off
        tables.append(conditional(variable.name, [variables[p].name for p in parents], table))
    return FactorGraph(variables, tables)


def conditional(child, parents, table):
    return ConditionalTable.from_log(child, parents, torch.from_numpy(np.log(table)))


def rows_of(truth, number, seed):
    """Rows of a network whose variables come after their parents, drawn one by one."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((number, truth.num_variables), dtype=np.int64)
    by_child = {factor.child: factor for factor in truth.factors}
    for place, variable in enumerate(truth.variables):
        factor = by_child[variable.name]
        chances = factor.log_table.exp().numpy()
        given = tuple(rows[:, truth.index(parent)] for parent in factor.parents)
        ones = chances[given][:, 1] if given else np.full(number, chances[1])
        rows[:, place] = rng.random(number) < ones
    return rows


def without(rows, share, seed):
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, -1, rows)


def estimated(model, rows):
    """Estimated likelihood of incomplete rows, by a q that is trained for this model alone."""
    cases = Cases.of(rows.astype(np.int8), model.variables)
    filler = RowFiller(model, torch.from_numpy(rows.astype(np.int64)), Budget.of())
    return DrawnCounts(cases, filler).likelihood(model, is_judged=True)


def exact_ways(truth, rows):
    """Whether a tree of cliques, and islands, fit into the memory that is free."""
    budget = Budget.of()
    try:
        RowInference(truth, memory_limit=budget.memory)
        tree = "fits"
    except MemoryLimitError as error:
        tree = str(error)
    cases = Cases.of(rows[:50].astype(np.int8), truth.variables)
    seconds = Islands(truth, cases, budget).seconds(budget.memory)
    return f"one tree: {tree}; islands: {seconds * len(rows) / 50:.0f} s a step"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--causes", type=int, default=80)
    parser.add_argument("--findings", type=int, default=160)
    parser.add_argument("--parents", type=int, default=4)
    parser.add_argument("--missing", type=float, default=0.5)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    header("A wide network with missing cells, learned by draws")
    truth = truth_of(options.causes, options.findings, options.parents, options.seed)
    rows = without(rows_of(truth, options.rows, options.seed + 1), options.missing, 2)
    fresh = rows_of(truth, FRESH, options.seed + 3)
    print(exact_ways(truth, rows), flush=True)
    names = tuple(variable.name for variable in truth.variables)
    labels = tuple(variable.states for variable in truth.variables)
    data = DataTable(names, labels, rows.astype(np.int32))
    began, busy = time.perf_counter(), time.process_time()
    learned = dai.learn(data, truth, progress=False, seed=options.seed)
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    print(learned.report, f"\n{seconds:.0f} s, CPU {cpu:.0f} s", flush=True)
    start = empty_network(truth.variables, parents_of(truth))
    start = from_known(start, Cases.of(rows.astype(np.int8), truth.variables), Prior(1.0))
    print("| tables | complete fresh row, exact | fresh row as given, estimated |")
    print("|---|---|---|")
    shown = without(fresh[:200], options.missing, 4)
    for name, model in (("truth", truth), ("learned", learned), ("known families", start)):
        complete = float(model.log_score(torch.from_numpy(fresh)).mean())
        found = estimated(FactorGraph.from_groups(model.variables, model.groups), shown)
        told = f"{found.mean:.3f} ± {found.error:.3f}, {found.verdict}"
        print(f"| {name} | {complete:.3f} | {told} |", flush=True)


def parents_of(model):
    by_child = {model.index(f.child): [model.index(p) for p in f.parents] for f in model.factors}
    return [by_child[v] for v in range(model.num_variables)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
