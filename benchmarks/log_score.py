"""Time ``log_score`` against a Python loop over the factors.

Four ways to score the same states of one Ising lattice, run in turn in one process:

- ``grouped``: ``model.log_score``, all factors of a shape in one tensor operation;
- ``loop over factors``: one torch expression a factor, vectorised over the batch, on the states as
  they come;
- ``loop, prepared``: the same with spins laid out column by column beforehand, outside the clock;
- ``pure Python``: one multiplication a factor and state, without torch, for a few states, scaled
  up to the whole batch (it is linear in the number of states).

Run ``python benchmarks/log_score.py --side 32 --repeats 7``; ``--profile`` also shows where the
grouped way spends its time. Ratios are taken repeat by repeat, so that a slow moment of the
machine hits both sides.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from deltaai.models import FactorGraph, SpinCoupling
from deltaai.models.zoo import ising_lattice

Clock = tuple[float, float]  # wall and CPU seconds


def timed(call: Callable[[], Tensor | list[float]]) -> tuple[Clock, Tensor | list[float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return (time.perf_counter() - wall, time.process_time() - cpu), result


def resolve(model: FactorGraph) -> list[tuple[tuple[int, ...], float]]:
    """Columns and strength of every factor."""
    return [
        (
            (model.index(factor.first), model.index(factor.second))
            if isinstance(factor, SpinCoupling)
            else (model.index(factor.variable),),
            factor.strength,
        )
        for factor in model.factors
    ]


def loop_over_factors(factors: list[tuple[tuple[int, ...], float]], spins: Tensor) -> Tensor:
    total = torch.zeros(spins.shape[1], dtype=spins.dtype)
    for scope, strength in factors:
        if len(scope) == 2:
            total += strength * spins[scope[0]] * spins[scope[1]]
        else:
            total += strength * spins[scope[0]]
    return total


def loop_on_states(factors: list[tuple[tuple[int, ...], float]], x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[0], dtype=torch.float64)
    for scope, strength in factors:
        value = torch.full_like(total, strength)
        for variable in scope:
            value = value * (2 * x[:, variable] - 1)
        total += value
    return total


def pure_python(
    factors: list[tuple[tuple[int, ...], float]], states: list[list[int]]
) -> list[float]:
    scores = []
    for state in states:
        total = 0.0
        for scope, strength in factors:
            product = strength
            for variable in scope:
                product *= 2 * state[variable] - 1
            total += product
        scores.append(total)
    return scores


def spread(values: list[float], unit: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{low:10.2f} {middle:10.2f} {high:10.2f} {unit}"


def profile(model: FactorGraph, x: Tensor, repeats: int) -> None:
    """Share of the grouped way's CPU time by operation."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(repeats):
            model.log_score(x)
    rows = sorted(recorded.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    print(f"\nGrouped, by operation ({total / repeats / 1000:.2f} ms a call under the profiler)")
    for row in rows[:8]:
        share = row.self_cpu_time_total / total
        print(f"  {row.key:28s} {share:6.1%}   {row.count // repeats} calls")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=32, help="side of the lattice")
    parser.add_argument("--states", type=int, default=1000, help="number of states to score")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--pure-states", type=int, default=5, help="states for pure Python")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    dtype = getattr(torch, options.dtype)
    model = ising_lattice(side=options.side, sigma=0.2, seed=0).to(dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (options.states, model.num_variables), generator=generator)
    factors = resolve(model)
    spins = (2 * x - 1).to(dtype).T.contiguous()
    few = x[: options.pure_states].tolist()
    scale = options.states / len(few)

    model.log_score(x)  # what is computed once per model is not what is measured
    ours: list[Clock] = []
    loop: list[Clock] = []
    prepared: list[Clock] = []
    pure: list[Clock] = []
    for _ in range(options.repeats):
        clock, score = timed(lambda: model.log_score(x))
        ours.append(clock)
        clock, _ = timed(lambda: loop_on_states(factors, x))
        loop.append(clock)
        clock, looped = timed(lambda: loop_over_factors(factors, spins))
        prepared.append(clock)
        (wall, cpu), listed = timed(lambda: pure_python(factors, few))
        pure.append((wall * scale, cpu * scale))
        torch.testing.assert_close(score, looped, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(
            score[: len(few)].double(), torch.tensor(listed).double(), rtol=1e-4, atol=1e-3
        )

    print(
        f"log_score of {options.states} states of a {options.side} x {options.side} Ising lattice "
        f"({model.num_factors} factors), {options.dtype}, {options.threads} thread(s), "
        f"{options.repeats} repeats in turn"
    )
    print(f"{'':34s} {'min':>10s} {'median':>10s} {'max':>10s}")
    for position, kind in enumerate(("wall", "CPU")):
        for name, clocks in (
            ("grouped", ours),
            ("loop over factors", loop),
            ("loop, prepared", prepared),
            (f"pure Python (x{scale:g})", pure),
        ):
            print(f"{name:28s} {kind:5s} {spread([1e3 * c[position] for c in clocks], 'ms')}")
        for name, clocks in (
            ("loop / grouped", loop),
            ("loop, prepared / grouped", prepared),
            ("pure Python / grouped", pure),
        ):
            ratios = [
                theirs[position] / mine[position] for theirs, mine in zip(clocks, ours, strict=True)
            ]
            print(f"{name:28s} {kind:5s} {spread(ratios, 'x')}")
    if options.profile:
        profile(model, x, repeats=20)


if __name__ == "__main__":
    main()
