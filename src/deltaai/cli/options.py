"""Options that several commands share. Nothing here needs torch: help must come at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from deltaai.arguments import checked_seed
from deltaai.cli.completion import complete_evidence, complete_names
from deltaai.cli.console import set_verbosity
from deltaai.errors import ConfigError, DeltaAIError


def _check_seed(seed: int) -> int:
    return checked_seed(seed)


def _check_seconds(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise ConfigError(f"--time-limit is {seconds:g}: it must be a number of seconds above 0")
    return seconds


ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="Model: .uai or .bif (also with .gz), .dai, or the name of an example."
    ),
]
SourceFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Model (.uai or .bif, also with .gz, .dai by `learn`, or the name of an example), or "
        "sampler (.dai) by `fit`.",
    ),
]
EvidenceWords = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="NAME=STATE",
        help="An observed variable with the label of its state, or its index as #0; repeat it, or "
        "separate several with commas.",
        autocompletion=complete_evidence,
    ),
]
EvidenceFile = Annotated[
    Path | None,
    typer.Option("--evidence-file", metavar="FILE", help="Observations in a UAI .evid file."),
]
Do = Annotated[
    list[str] | None,
    typer.Option(
        "--do",
        metavar="NAME=STATE",
        help="A variable that is set from outside, in a directed model: what causes it is not "
        "learned from it. Repeat it, or separate several with commas.",
        autocompletion=complete_evidence,
    ),
]
Likelihoods = Annotated[
    list[str] | None,
    typer.Option(
        "--likelihood",
        metavar="NAME=STATE:NUMBER,...",
        help="An uncertain observation: how likely what was seen is at each state of a variable, "
        "such as rain=yes:0.9,no:0.2, or by order, rain=0.9,0.2. Repeat it for several.",
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Variables to report, separated by commas (all).",
        autocompletion=complete_names,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory an answer may use, such as 4GB. Default: half of what is free."
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time an answer may take, reading the files included; loading the program is not.",
        callback=_check_seconds,
    ),
]
TrainingTimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time to read the model, train and judge; loading the program is not counted.",
        callback=_check_seconds,
    ),
]
PartTimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time each part is trained for, judging not counted; for figures of images and poses.",
        callback=_check_seconds,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where samplers are trained and asked, such as cuda (cpu). Exact tables are computed "
        "on the CPU.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.", callback=_check_seed)]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File to keep the state of the run in (OUT.checkpoint)."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted.")]
Restart = Annotated[
    bool, typer.Option("--restart", help="Begin anew, and give up a run that was interrupted.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def _be_quiet(wanted: bool) -> bool:
    if wanted:
        set_verbosity(-1)
    return wanted


def _be_verbose(wanted: bool) -> bool:
    if wanted:
        set_verbosity(1)
    return wanted


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_be_quiet, help="No progress and no notes."),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_be_verbose, help="Say what is being done, and why."),
]


def one_format(*, json: bool, csv: bool) -> None:
    """Refuse two formats at once."""
    if json and csv:
        raise DeltaAIError("choose one of --json and --csv")
