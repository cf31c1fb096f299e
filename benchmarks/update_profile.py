"""Where the time of a training update goes: by operation, and the share of the matmul peak.

The peak is measured in the same process: a large single-precision product on the same threads.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.profiler import ProfilerActivity, profile

from deltaai.fitting.spec import SamplerSpec
from deltaai.graphs import ChordalGraph, eliminate, min_fill_order
from deltaai.models import zoo
from deltaai.objectives import delta_residuals, prepare_delta
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.policies import ON_POLICY
from measure import header

PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm")


def matmul_peak():
    a = torch.randn(1024, 1024)
    best = min(_timed(lambda: a @ a) for _ in range(10))
    return 2 * 1024**3 / best / 1e9


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = zoo.ising_lattice(side=options.side, sigma=0.2, seed=0)
    graph = model.markov_graph()
    chordal = ChordalGraph.from_elimination(eliminate(graph, min_fill_order(graph)))
    spec = SamplerSpec(orders="one", family="local", hidden=options.hidden)
    proposal, orders = spec.build(model, chordal)
    schedule = Schedule.build(proposal, [orders.fixed], masks=False)
    generator = torch.Generator().manual_seed(0)

    def draw():
        return sample_ancestrally(
            proposal, schedule, options.batch, policy=ON_POLICY, generator=generator
        )[0].flatten(1)

    x = draw()
    alternatives = proposal.layout.encoding.propose(x, generator)
    batch = prepare_delta(proposal, x, alternatives)
    drawing = min(_timed(draw) for _ in range(5))
    preparing = min(_timed(lambda: prepare_delta(proposal, x, alternatives)) for _ in range(5))

    def update():
        delta_residuals(proposal, batch).square().mean().backward()

    update()
    updating = min(_timed(update) for _ in range(options.updates))
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as recorded:
        for _ in range(options.updates):
            update()
    rows = recorded.key_averages()
    total = sum(row.self_cpu_time_total for row in rows)
    products = [row for row in rows if row.key in PRODUCTS]
    in_products = sum(row.self_cpu_time_total for row in products)
    flops = sum(row.flops for row in products) / options.updates
    peak = matmul_peak()
    header(f"Profile of an update, {options.side} x {options.side} lattice")
    print(
        f"States drawn in {1e3 * drawing:.1f} ms and prepared in {1e3 * preparing:.1f} ms, each "
        f"used for several updates; an update takes {1e3 * updating:.1f} ms.\n"
    )
    print(
        f"Matrix products: {in_products / total:.0%} of an update, "
        f"{flops / (in_products / total * updating) / 1e9:.1f} GFLOP/s within them, "
        f"{flops / updating / 1e9:.1f} over the whole update; peak here {peak:.0f}.\n"
    )
    print("| operation | share of the time | calls an update |")
    print("|---|---|---|")
    for row in sorted(rows, key=lambda row: -row.self_cpu_time_total)[:10]:
        share = row.self_cpu_time_total / total
        print(f"| {row.key} | {share:.1%} | {row.count // options.updates} |")


if __name__ == "__main__":
    main()
