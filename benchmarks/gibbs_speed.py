"""Spin updates a second of Gibbs sampling on an Ising lattice: ours, thrml's, dwave-samplers'.

Every contender makes the same number of single-spin updates (spins x chains x sweeps) of the same
model at the same constant temperature, from random states, on one core, in turn in one process:

- ``ours``: ``GibbsKernel``, systematic scan over the two colours;
- ``thrml``: block Gibbs over the same two colours, jit-compiled and mapped over chains; compiling
  and the first run are not timed;
- ``dwave Gibbs`` and ``dwave Metropolis``: ``SimulatedAnnealingSampler`` at one beta, spin after
  spin; Metropolis is its default and not the same chain.

The mean score of the final states is printed too: contenders that sample the same distribution
agree on it (at sigma 0.5 fifty sweeps from random states are not enough for that). Run
``cd benchmarks && python gibbs_speed.py``; with ``--all-cores`` the process is not pinned to one
core: XLA may then use the others too, while ours and dwave stay on one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import psutil
import torch

from deltaai.mcmc.chains import run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.models import FactorGraph
from deltaai.models.zoo import ising_lattice
from measure import header, ratios, spread

Run = Callable[[int], np.ndarray]  # seed -> final states (chain, spin) in {0, 1}


def strengths(model: FactorGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fields by spin, couplings, and their edges."""
    fields = np.zeros(model.num_variables)
    for group in model.groups:
        if group.arity == 1:
            fields[group.scopes[:, 0].numpy()] = group.strengths.numpy()
        else:
            edges, couplings = group.scopes.numpy(), group.strengths.numpy()
    return fields, couplings, edges


def ours(model: FactorGraph, chains: int, sweeps: int) -> Run:
    kernel = GibbsKernel(model)

    def run(seed: int) -> np.ndarray:
        generator = torch.Generator().manual_seed(seed)
        state, info = run_chains(kernel, kernel.init(chains, generator), sweeps, generator)
        assert info.num_updates == model.num_variables * chains * sweeps
        return state.columns.T.numpy()

    return run


def thrml(model: FactorGraph, chains: int, sweeps: int) -> Run:
    import jax
    from jax import numpy as jnp
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    fields, couplings, edges = strengths(model)
    side = int(model.num_variables**0.5)
    nodes = [SpinNode() for _ in range(model.num_variables)]
    ebm = IsingEBM(
        nodes,
        [(nodes[a], nodes[b]) for a, b in edges.tolist()],
        jnp.array(fields, dtype=jnp.float32),
        jnp.array(couplings, dtype=jnp.float32),
        jnp.array(1.0),
    )
    colours = [
        Block([node for v, node in enumerate(nodes) if (v // side + v % side) % 2 == colour])
        for colour in (0, 1)
    ]
    program = IsingSamplingProgram(ebm, colours, clamped_blocks=[])
    schedule = SamplingSchedule(n_warmup=sweeps, n_samples=1, steps_per_sample=1)

    @jax.jit
    def sample(key, start):
        def one(key, start):
            return sample_states(key, program, schedule, start, [], [Block(nodes)])[0]

        return jax.vmap(one)(jax.random.split(key, chains), start)

    def run(seed: int) -> np.ndarray:
        first, second = jax.random.split(jax.random.key(seed))
        start = hinton_init(first, ebm, colours, (chains,))
        return np.asarray(sample(second, start).block_until_ready()).reshape(chains, -1)

    return run


def dwave(model: FactorGraph, chains: int, sweeps: int, rule: str) -> Run:
    import dimod
    from dwave.samplers import SimulatedAnnealingSampler

    fields, couplings, edges = strengths(model)
    quadratic = dimod.BinaryQuadraticModel.from_ising(
        dict(enumerate((-fields).tolist())),
        {(a, b): -w for (a, b), w in zip(edges.tolist(), couplings.tolist(), strict=True)},
    )
    sampler = SimulatedAnnealingSampler()

    def run(seed: int) -> np.ndarray:
        found = sampler.sample(
            quadratic,
            num_reads=chains,
            beta_schedule_type="custom",
            beta_schedule=[1.0],
            num_sweeps_per_beta=sweeps,
            proposal_acceptance_criteria=rule,
            seed=seed + 1,
        )
        spins, order = dimod.as_samples(found)
        return (spins[:, np.argsort(order)] + 1) // 2

    return run


def timed(run: Run, seed: int) -> tuple[float, float, np.ndarray]:
    wall, cpu = time.perf_counter(), time.process_time()
    states = run(seed)
    return time.perf_counter() - wall, time.process_time() - cpu, states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=50)
    parser.add_argument("--sigma", type=float, default=0.2)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all-cores", action="store_true", help="do not pin to one core")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.all_cores:  # before jax starts its threads
        busy = psutil.cpu_percent(interval=1, percpu=True)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0), key=lambda core: busy[core])})

    model = ising_lattice(side=options.side, sigma=options.sigma, seed=0)
    work = (model, options.chains, options.sweeps)
    contenders: dict[str, Run] = {
        "ours": ours(*work),
        "thrml": thrml(*work),
        "dwave Gibbs": dwave(*work, "Gibbs"),
        "dwave Metropolis": dwave(*work, "Metropolis"),
    }
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    cpus: dict[str, list[float]] = {name: [] for name in contenders}
    scores: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(options.rounds + 1):
        for name, run in contenders.items():
            wall, cpu, states = timed(run, round_number)
            if round_number == 0:
                continue  # compiling, and what is made once a model
            walls[name].append(wall)
            cpus[name].append(cpu)
            tensor = torch.from_numpy(np.ascontiguousarray(states).astype(np.int8))
            scores[name].append(float(model.log_score(tensor).mean()) / model.num_variables)

    updates = model.num_variables * options.chains * options.sweeps
    header(
        f"Gibbs sampling of a {options.side} x {options.side} Ising lattice, "
        f"sigma {options.sigma:g}"
    )
    print(
        f"{options.chains} chains, {options.sweeps} sweeps, {updates:.3g} spin updates a run, "
        f"{options.rounds} rounds in turn, "
        f"{'all cores' if options.all_cores else 'one core'}.\n"
    )
    print(
        "| sampler | M updates / s (wall) | M updates / CPU s | wall / ours | CPU / ours "
        "| log score a spin |\n|---|---|---|---|---|---|"
    )
    for name in contenders:
        rates = [
            spread([updates / seconds / 1e6 for seconds in clock[name]]) for clock in (walls, cpus)
        ]
        slower = [spread(ratios(clock[name], clock["ours"]), "x") for clock in (walls, cpus)]
        print(f"| {name} | {' | '.join(rates + slower)} | {np.mean(scores[name]):.4f} |")


if __name__ == "__main__":
    main()
