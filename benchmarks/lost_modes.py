"""Lost modes of exactly known share in models of 144 to 256 variables, and whether they are found.

A model whose factors do not change when all spins are flipped (or all Potts states permuted) has
uniform marginals. A table on one variable x_0 then sets its marginal, and nothing else: the part
x_0 != 0 of the distribution has exactly the share m that one chooses, in ferromagnets, where it is
the other well, in glasses and in dense models, though none of them can be solved exactly. A q that
is p given x_0 = 0 lacks this part and knows nothing of it: its weights are those of samples given
x_0 = 0, and u = log p~ - log q is one constant there and infinite in the lost part.

Each such q is held against the default second opinion, by the rules of `deltaai.trust.verdicts`.
A lost part is *visible* if its share is above what the answer says that it could see. As a control,
a q that lost nothing is asked in each model too (share 0), and must not be doubted.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch

import deltaai as dai
from deltaai.trust.opinions import second_opinion
from deltaai.trust.verdicts import (
    judge_coverage,
    judge_marginals,
    judge_partition,
    smallest_seen,
)
from deltaai.trust.weighted import WeightedSamples
from measure import header

SHARES = (0.3, 0.1, 0.05, 0.03, 0.02)


@dataclass(frozen=True)
class Case:
    """A lost part: what became of it."""

    name: str
    method: str
    share: float
    visible_share: float
    is_found: bool
    log_excess: float  # of the opinion's log Z over that of q, which should be -log(1 - share)
    seconds: float

    @property
    def is_visible(self) -> bool:
        """Whether the answer says that it could see such a part."""
        return self.share > self.visible_share


def pairwise(num_variables: int, states: int, pairs, strengths):
    """A model of couplings alone: `strength` where two variables agree, else 0."""
    names = [f"x{number}" for number in range(num_variables)]
    factors = [
        dai.TableFactor([names[a], names[b]], strength * np.eye(states))
        for (a, b), strength in zip(pairs, strengths, strict=True)
    ]
    return dai.FactorGraph([dai.Variable(name, states) for name in names], factors)


def grid_pairs(side: int, *, is_torus: bool):
    found = []
    for row in range(side):
        for column in range(side):
            for down, right in ((0, 1), (1, 0)):
                other = row + down, column + right
                if is_torus or max(other) < side:
                    found.append((row * side + column, other[0] % side * side + other[1] % side))
    return found


def models(scale: str):
    """Names and models, symmetric between all states of a variable."""
    rng = np.random.default_rng(0)

    def grid(side, states, strength, *, is_torus, is_glass=False):
        pairs = grid_pairs(side, is_torus=is_torus)
        signs = rng.choice([-1.0, 1.0], len(pairs)) if is_glass else np.ones(len(pairs))
        return pairwise(side * side, states, pairs, strength * signs)

    def dense(size, strengths):
        return pairwise(size, 2, [(a, b) for a in range(size) for b in range(a)], strengths)

    if scale == "tiny":
        yield "ferromagnet, torus 10 x 10", grid(10, 2, 1.0, is_torus=True)
        yield "dense glass, 70 spins", dense(70, rng.normal(size=70 * 69 // 2) * 2 / math.sqrt(70))
        return
    yield "ferromagnet, torus 12 x 12", grid(12, 2, 1.0, is_torus=True)
    count = 150 * 149 // 2
    yield "dense glass, 150 spins", dense(150, rng.normal(size=count) * 2 / math.sqrt(150))
    if scale == "small":
        return
    yield "ferromagnet, lattice 16 x 16", grid(16, 2, 1.0, is_torus=False)
    yield "ferromagnet, torus 16 x 16", grid(16, 2, 1.0, is_torus=True)
    yield "glass, lattice 16 x 16", grid(16, 2, 3.0, is_torus=False, is_glass=True)
    yield "glass, torus 14 x 14", grid(14, 2, 2.0, is_torus=True, is_glass=True)
    yield "Potts ferromagnet, 3 states, torus 12 x 12", grid(12, 3, 1.1, is_torus=True)
    yield "Potts glass, 4 states, 16 x 16", grid(16, 4, 2.5, is_torus=False, is_glass=True)
    yield "dense ferromagnet, 200 spins", dense(200, np.full(200 * 199 // 2, 2.4 / 200))
    yield "dense glass, 200 spins", dense(200, rng.normal(size=200 * 199 // 2) * 2 / math.sqrt(200))


def with_share(model, share: float):
    """The same model where the part x_0 != 0 has a share, and the log factor that x_0 = 0 gets."""
    states = model.variables[0].num_states
    table = np.log([1 - share, *[share / (states - 1)] * (states - 1)])
    factor = dai.TableFactor([model.variables[0].name], table)
    return dai.FactorGraph(model.variables, [*model.factors, factor]), float(table[0])


def control(name: str, model) -> Case:
    """Hold samples that lost nothing against the opinion."""
    answer = second_opinion(model, {}, torch.Generator().manual_seed(200))
    start = time.process_time()
    opinion = second_opinion(model, {}, torch.Generator().manual_seed(201))
    seconds = time.process_time() - start
    doubts = (*judge_partition(answer, opinion), *judge_marginals(answer, opinion))
    above = opinion.estimate.log_partition - answer.estimate.log_partition
    return Case(name, opinion.method, 0.0, smallest_seen(opinion), bool(doubts), above, seconds)


def lost(name: str, model, shares, num_seeds: int):
    """Lose the part x_0 != 0, for several shares and seeds of the opinion."""
    kept = second_opinion(model, {0: 0}, torch.Generator().manual_seed(100), num_samples=8000)
    yield control(name, with_share(model, shares[0])[0])
    for share in shares:
        target, log_factor = with_share(model, share)
        answer = WeightedSamples(target, kept.states, kept.log_weights + log_factor, {})
        for seed in range(num_seeds):
            start = time.process_time()
            opinion = second_opinion(target, {}, torch.Generator().manual_seed(seed))
            seconds = time.process_time() - start
            here = torch.zeros(len(answer.states), dtype=torch.float64)
            there = here.new_zeros(len(opinion.states))
            there[opinion.states[:, 0] != 0] = math.inf
            doubts = (
                *judge_partition(answer, opinion),
                *judge_marginals(answer, opinion),
                *judge_coverage(answer.log_weights, here, opinion, there),
            )
            above = opinion.estimate.log_partition - answer.estimate.log_partition
            yield Case(
                name, opinion.method, share, smallest_seen(opinion), bool(doubts), above, seconds
            )


def run(scale: str, shares=SHARES, num_seeds: int = 3) -> list[Case]:
    """All cases."""
    return [case for name, model in models(scale) for case in lost(name, model, shares, num_seeds)]


def report(cases: list[Case]) -> None:
    """Print a table."""
    print("| model | opinion by | CPU seconds | sees above | visible and found | others found |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(case.name for case in cases):
        own = [case for case in cases if case.name == name]
        seen = [case.is_found for case in own if case.is_visible]
        others = [case.is_found for case in own if 0 < case.share <= case.visible_share]
        worst = max(case.visible_share for case in own)
        cells = (
            name,
            ", ".join(sorted({case.method for case in own})),
            f"{np.mean([case.seconds for case in own]):.1f}",
            f"{100 * worst:.2g} %",
            f"{sum(seen)} of {len(seen)}",
            f"{sum(others)} of {len(others)}",
        )
        print(f"| {' | '.join(cells)} |")
    seen = [case.is_found for case in cases if case.is_visible]
    alarms = [case.is_found for case in cases if case.share == 0]
    print(f"\nLost parts that are visible: {sum(seen)} of {len(seen)} found.")
    print(f"Nothing lost, and doubted: {sum(alarms)} of {len(alarms)}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=["tiny", "small", "full"], default="full")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Lost modes in models of 144 to 256 variables")
    report(run(options.scale, num_seeds=options.seeds))
