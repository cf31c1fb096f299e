"""The commands that make something, and their options: ``fit``, ``reproduce``, ``demo``.

What a command needs is imported when it runs, for torch takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaai.budget import Budget
from deltaai.cli.options import (
    AsCsv,
    AsJson,
    Checkpoint,
    Device,
    MemoryLimit,
    ModelFile,
    PartTimeLimit,
    Quiet,
    Restart,
    Resume,
    Seed,
    TrainingTimeLimit,
    Verbose,
    one_format,
)


def fit(
    file: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="The .dai file to write.")
    ],
    evidence: Annotated[
        str | None,
        typer.Option(
            metavar="any|NAMES",
            help="Train for evidence: on any variables, or on these every time.",
        ),
    ] = None,
    orders: Annotated[
        str, typer.Option(metavar="one|many", help="Train one order, or any order.")
    ] = "one",
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to minimise: delta, sampled, stochastic, sub-dags, log-variance, tb, db, "
            "subtb, fl-db or fl-subtb.",
        ),
    ] = "delta",
    steps: Annotated[int | None, typer.Option(help="Updates (from the model).")] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TrainingTimeLimit = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Floor of zeros while training, such as 1e-3; needed if the model has zeros.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other setting of training; repeat it."
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    restart: Restart = False,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the course of training (.jsonl, .csv)."),
    ] = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a sampler for a model and write it to a file.

    The state of the run is kept in a file; an interrupted run goes on with --resume.
    """
    from deltaai.cli.parsing import parse_settings
    from deltaai.cli.training import run_fit

    one_format(json=json, csv=csv)
    named = {
        "objective": None if objective == "delta" else objective,
        "steps": steps,
        "time_limit": time_limit,
        "smoothing": smoothing,
    }
    chosen = parse_settings(
        settings or [], {name: value for name, value in named.items() if value is not None}
    )
    budget = Budget.of(memory_limit, chosen.get("time_limit"))
    run_fit(
        file,
        output,
        orders=orders,
        seed=seed,
        checkpoint=checkpoint,
        resume=resume,
        restart=restart,
        metrics=metrics,
        evidence=evidence,
        device=device,
        is_json=json,
        is_csv=csv,
        budget=budget,
        settings=chosen,
    )


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An experiment; see --list.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="smoke|small|paper", help="How large: seconds, minutes, hours.")
    ] = "small",
    seeds: Annotated[
        int | None,
        typer.Option(help="Random seeds for each method (3; 1 for mnist and digits)."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parts that run side by side.")] = 2,
    threads: Annotated[
        int, typer.Option(help="Threads of a part's compiled passes (with numba).")
    ] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what the folder holds, run what is missing.")
    ] = False,
    only_methods: Annotated[
        str | None,
        typer.Option(
            "--only-methods",
            "--method",
            metavar="KEYS",
            help="Run these methods, separated by commas, or all of them.",
        ),
    ] = None,
    only_models: Annotated[
        str | None, typer.Option(metavar="KEYS", help="Run these models, separated by commas.")
    ] = None,
    orders: Annotated[
        str | None,
        typer.Option(metavar="one|many", help="Run the parts of one order, or of many; for poses."),
    ] = None,
    time_limit: PartTimeLimit = None,
    clock: Annotated[
        str | None,
        typer.Option(
            metavar="wall|processor",
            help="What the seconds of training are: processor time counts what other work on the "
            "machine does not take (with one thread). Default: wall.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the files of MNIST, or of poses. Default: DELTAAI_DATA_DIR; MNIST is "
            "downloaded if there is none.",
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper and write its table, picture and summary.

    Example: deltaai reproduce synthetic-gfn --scale smoke --seeds 2 --out results
    """
    from deltaai.cli.reproduce import list_experiments, run_reproduce

    if list_:
        list_experiments()
        return
    run_reproduce(
        name,
        out,
        scale=scale,
        num_seeds=seeds,
        jobs=jobs,
        threads=threads,
        resume=resume,
        only_methods=only_methods,
        only_models=only_models,
        orders=orders,
        time_limit=time_limit,
        clock=clock,
        data_dir=data_dir,
    )


def demo() -> None:
    """Show the main thing in a minute: plan, train a sampler, answer, and how far to trust it."""
    from deltaai.cli.demo import run_demo

    run_demo()
