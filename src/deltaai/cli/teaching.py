"""The command that makes a model of data, and its options: ``learn``.

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
    MemoryLimit,
    Quiet,
    Restart,
    Resume,
    Seed,
    TimeLimit,
    Verbose,
    one_format,
)


def learn(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Table: .csv, also with .gz, names in its first line; - for standard input.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="The file to write: .bif, .uai or .dai."
        ),
    ],
    structure: Annotated[
        str | None,
        typer.Option(
            metavar="chow-liu|independent|grid RxC|FILE",
            help="Which column depends on which: the best tree (chow-liu), none, neighbours in a "
            "grid, or as in a model, whose tables do not matter.",
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Learn on from this model: its states, structure and tables."
        ),
    ] = None,
    start_rows: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="How many rows the tables of --start are worth; with 0 they are where learning "
            "begins, and may be forgotten.",
        ),
    ] = 0.0,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="What stands for a missing cell, besides blanks (?)."),
    ] = None,
    latent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=STATES", help="A variable of the structure that no column shows; repeat."
        ),
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]NUMBER",
            help="Cut a column of numbers at quantiles into so many bins, or all such columns.",
        ),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(
            help="Pseudo-rows spread over each table (1, or none with --start-rows); 0 for the "
            "largest likelihood."
        ),
    ] = None,
    held_out: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Rows that judge the tables before they are learned."),
    ] = 0.1,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of expectation maximisation (200), or along a gradient (500)."),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="Random starts (5 with latent variables).")
    ] = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    restart: Restart = False,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Learn a model from a table, some cells of which may be missing.

    Example: deltaai learn cases.csv -o cases.bif; then deltaai query cases.bif

    More rows: deltaai learn more.csv --start cases.bif --start-rows 5000 -o better.bif
    """
    from deltaai.cli.learning import run_learn

    budget = Budget.of(memory_limit, time_limit)
    one_format(json=json, csv=csv)
    run_learn(
        file,
        output,
        structure=structure,
        missing=missing if missing is not None else ["?"],
        latent=latent or [],
        bins=bins or [],
        checkpoint=checkpoint,
        is_json=json,
        is_csv=csv,
        budget=budget,
        settings={
            "prior": prior,
            "held_out": held_out,
            "steps": steps,
            "restarts": restarts,
            "seed": seed,
            "start": start,
            "start_rows": start_rows,
            "resume": resume,
            "restart": restart,
        },
    )
