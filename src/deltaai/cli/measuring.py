"""The commands that measure answers against known solutions, and their options: ``bench uai``.

What a command needs is imported when it runs, for torch takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaai.cli.options import AsCsv, AsJson, Quiet, Resume, Seed, one_format

bench = typer.Typer(
    help="Answer problems whose solutions are known, and score the answers.", no_args_is_help=True
)


@bench.callback()
def _group() -> None:
    """Keeps ``uai`` a command of its own while it is the only one."""


@bench.command()
def uai(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of problems: NAME.uai, and NAME.uai.evid, .PR, .MAR where there are any.",
        ),
    ],
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for each problem, reading included.")
    ] = 20.0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for each problem, such as 8GiB.")
    ] = "8GiB",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (bench-DIR)."),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="auto|exact|sampler|bp", help="How to answer.")
    ] = "auto",
    only_problems: Annotated[
        str | None, typer.Option(metavar="NAMES", help="These problems, separated by commas.")
    ] = None,
    seed: Seed = 0,
    resume: Resume = False,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
) -> None:
    """Answer a folder of UAI problems under the rules of the UAI inference competition.

    Each problem runs on one core, in a process of its own, within limits of time and memory, and
    is asked for log10 Z and all marginals. Answers are written as .PR and .MAR files, and held
    against the solutions of the folder.

    Example: deltaai bench uai problems --seconds 20 --memory 8GiB
    """
    from deltaai.cli.contest import run_uai

    one_format(json=json, csv=csv)
    run_uai(
        folder,
        out,
        settings={"seconds": seconds, "memory": memory, "method": method, "seed": seed},
        only_problems=only_problems,
        resume=resume,
        is_json=json,
        is_csv=csv,
    )
