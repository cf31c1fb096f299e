"""``deltaai demo``: the main job end to end on built-in models, for a first look."""

from __future__ import annotations

import time

import torch

from deltaai.cli import show
from deltaai.exact import exact
from deltaai.inference import check, plan
from deltaai.models import zoo


def run_demo() -> None:
    """Show structure, plan, log Z, marginals and samples of two models."""
    model = zoo.sprinkler()
    report = check(model)
    show.out.rule("[bold]1. A small network with names: why is the grass wet?")
    show.figures("Structure", show.report_rows(report))
    show.figures("Plan", report.plan.rows())
    show.marginal_table(model, exact(model).marginals(), "\nBefore any evidence")
    answer = exact(model, {"wet_grass": "yes"})
    show.marginal_table(model, answer.marginals(), "\nGiven wet_grass=yes")
    best = answer.map()
    show.figures(
        "",
        [
            ("log P(wet_grass=yes)", f"{answer.log_partition():.6f}"),
            ("most likely", ", ".join(f"{name}={state}" for name, state in best.labels.items())),
        ],
    )
    drawn = answer.sample(6, torch.Generator().manual_seed(4))
    show.samples_table(model, drawn, "\nSamples")

    show.out.print()
    show.out.rule("[bold]2. A loopy model: a 14 x 14 Ising lattice, 2^196 joint states")
    lattice = zoo.ising_lattice(side=14, sigma=0.5, seed=0)
    show.figures("Plan", plan(lattice).rows())
    start = time.perf_counter()
    engine = exact(lattice)
    log_partition, marginals = engine.log_partition(), engine.marginals()
    seconds = time.perf_counter() - start
    show.figures(
        "Answer",
        [("log Z", f"{log_partition:.6f}"), ("all marginals in", f"{seconds:.2f} s")],
    )
    some = {name: marginals[name] for name in list(marginals)[:4]}
    show.marginal_table(lattice, some, "\nFirst marginals")
    sample = engine.sample(1, torch.Generator().manual_seed(0)).reshape(14, 14)
    show.out.print("\nOne exact sample")
    for row in sample.tolist():
        show.out.print("  " + " ".join("█" if spin else "·" for spin in row))
    show.out.print(
        "\nNext: [bold]deltaai query FILE --evidence name=state[/], on .uai or .bif files."
    )
