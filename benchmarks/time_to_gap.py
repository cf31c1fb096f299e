"""Time to a gap of 0.1 nats on the 8 x 8 Ising lattice: our defaults and the paper's configuration.

All three run in one process, one after the other in every round, on one thread: ``fit`` with one
order, ``fit`` with many, and the paper's own configuration (masked autoencoder 512 x 3, sub-DAGs,
batch 1024, tempered policy, no factors in the logits; ``paper_configuration.py``). The gap is the
mean NLL of 4000 exact samples less its exact mean; time spent measuring it is not counted. For many
orders it is the mean over three fresh random orders.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import torch

import deltaai as dai
from deltaai.fitting.defaults import suitable_config, suitable_graph, suitable_hidden
from deltaai.fitting.runs import set_up_run
from deltaai.fitting.spec import SamplerSpec
from measure import header, ratios, spread
from paper_configuration import run

TARGET = 0.1


def ours(kind, seed):
    """Seconds, updates and conditional evaluations until the gap is reached."""
    model = dai.zoo.ising_lattice(side=8, sigma=0.2, seed=0)
    exact = dai.exact(model)
    x = exact.sample(4000, torch.Generator().manual_seed(0))
    best = -float(exact.log_prob(x).mean())
    start = time.perf_counter()
    hidden = suitable_hidden(model, "local")
    spec = SamplerSpec(orders=kind, family="local", hidden=hidden)
    proposal, orders = spec.build(model, suitable_graph(model), seed=seed)
    config = suitable_config(
        model,
        proposal.layout,
        hidden,
        "local",
        is_many=kind == "many",
        seed=seed,
        evaluate_every=0,
        target_ess=None,
        target_kl=None,
    )
    judge = dai.Sampler(model, proposal, orders, config, spec)
    trainer = set_up_run(judge)
    measuring = 0.0
    reached: dict[str, float] = {}

    class Done(Exception):
        pass

    def watch(progress):
        nonlocal measuring
        if progress.step % 5:
            return
        begin = time.perf_counter()
        dags = [judge.random_order(1000 + number) for number in range(3 if kind == "many" else 1)]
        gaps = [-float(judge.log_prob(x, dag=dag).mean()) - best for dag in dags]
        measuring += time.perf_counter() - begin
        if sum(gaps) / len(gaps) <= TARGET:
            seconds = time.perf_counter() - start - measuring
            drawn = (progress.step + config.resample_every - 1) // config.resample_every
            each = model.num_variables + proposal.layout.num_slots
            evaluations = config.batch_size * (progress.step * each + drawn * model.num_variables)
            reached.update(seconds=seconds, updates=progress.step, evaluations=evaluations)
            raise Done

    with contextlib.suppress(Done):
        trainer.run(watch=watch)
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--paper-limit", type=float, default=300, help="seconds for the paper's")
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Time to gap 0.1 on the 8 x 8 lattice")
    rows = {"one order": [], "many orders": [], "paper's configuration": []}
    for seed in range(options.rounds):
        rows["one order"].append(ours("one", seed))
        rows["many orders"].append(ours("many", seed))
        last = run(options.paper_limit, target=TARGET, seed=seed)[-1]
        state = {"seconds": last.seconds, "updates": last.update, "evaluations": last.evaluations}
        rows["paper's configuration"].append(state | {"gap": last.gap})
    print(
        "| configuration | seconds | updates | conditional evaluations | paper's seconds / ours |"
    )
    print("|---|---|---|---|---|")
    theirs = [row["seconds"] for row in rows["paper's configuration"]]
    for name, found in rows.items():
        seconds = [row["seconds"] for row in found]
        updates = [float(row["updates"]) for row in found]
        evaluations = [float(row["evaluations"]) for row in found]
        print(
            f"| {name} | {spread(seconds)} | {spread(updates)} | {spread(evaluations)} | "
            f"{spread(ratios(theirs, seconds), 'x')} |"
        )
    gaps = [round(row["gap"], 3) for row in rows["paper's configuration"]]
    print(f"\nThe paper's configuration stopped at gaps of {gaps}.")


if __name__ == "__main__":
    main()
