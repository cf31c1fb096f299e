"""Loopy belief propagation by PGMax; run by ``loopy_speed.py`` in an environment of its own.

Reads the couplings and fields of an Ising model from a JSON file, builds the factor graph (one
pairwise factor an edge, fields as evidence), compiles a run of sum-product messages, and prints
the seconds of each run after the first, what building and compiling took, and the marginals, as
one JSON line.
"""

from __future__ import annotations

import functools
import json
import sys
import time

import jax
import numpy as np
from pgmax import fgraph, fgroup, infer, vgroup


def main() -> None:
    with open(sys.argv[1]) as file:
        job = json.load(file)
    start = time.perf_counter()
    fields, couplings = np.array(job["fields"]), np.array(job["couplings"])
    spins = vgroup.NDVarArray(num_states=2, shape=(len(fields),))
    agree = np.array([[1.0, -1.0], [-1.0, 1.0]])
    edges = fgroup.PairwiseFactorGroup(
        variables_for_factors=[[spins[int(a)], spins[int(b)]] for a, b in job["edges"]],
        log_potential_matrix=couplings[:, None, None] * agree,
    )
    graph = fgraph.FactorGraph(variable_groups=spins)
    graph.add_factors(edges)
    built = time.perf_counter() - start

    engine = infer.build_inferer(graph.bp_state, backend="bp")
    evidence = np.stack((-fields, fields), axis=1)
    arrays = engine.init(evidence_updates={spins: evidence})
    run = jax.jit(
        functools.partial(
            engine.run, num_iters=job["iterations"], damping=job["damping"], temperature=1.0
        )
    )
    start = time.perf_counter()
    done = jax.block_until_ready(run(arrays))
    compiled = time.perf_counter() - start
    rows = []
    for _ in range(job["repeats"]):
        wall, cpu = time.perf_counter(), time.process_time()
        done = jax.block_until_ready(run(arrays))
        rows.append((time.perf_counter() - wall, time.process_time() - cpu))
    marginals = infer.get_marginals(engine.get_beliefs(done))[spins]
    answer = {"rows": rows, "building": built, "compiling": compiled}
    print(json.dumps(answer | {"marginals": np.asarray(marginals)[:, 1].tolist()}))


if __name__ == "__main__":
    main()
