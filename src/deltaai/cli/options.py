"""Options that several commands share, and completion of what a user begins to type."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deltaai.cli import show
from deltaai.cli.parsing import split_names
from deltaai.errors import ConfigError, DeltaAIError
from deltaai.inference import load_sampler
from deltaai.inference.sampler import Sampler
from deltaai.io import read
from deltaai.models import FactorGraph

SAMPLER_SUFFIX = ".dai"


def read_source(path: Path) -> FactorGraph | Sampler:
    """Read a model, or a sampler if the file's name says so."""
    source = load_sampler(path) if path.suffix == SAMPLER_SUFFIX else read(path)
    model = source.model if isinstance(source, Sampler) else source
    sizes = f"{show.plural(model.num_variables, 'variable')}, {model.num_factors} factors"
    show.detail(f"read {path}: {sizes}")
    return source


def _model_of(context: typer.Context) -> FactorGraph | None:
    """The model of a command line that is not finished yet, if it can be read."""
    # While an option waits for its value the line is not parsed, so its words are looked through.
    words = [context.params.get("file"), *os.environ.get("COMP_WORDS", "").split()[2:]]
    for word in words:
        if word is not None and Path(word).is_file():
            try:
                source = read_source(Path(word))
            except DeltaAIError:
                continue
            return source.model if isinstance(source, Sampler) else source
    return None


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of variables, after those that stand there already."""
    model = _model_of(context)
    if model is None:
        return []
    done, begun = split_names(incomplete)
    names = [variable.name for variable in model.variables]
    return [done + name for name in names if name.startswith(begun)]


def complete_evidence(context: typer.Context, incomplete: str) -> list[str]:
    """Names of variables, then their states."""
    model = _model_of(context)
    if model is None:
        return []
    done, begun = split_names(incomplete)
    found = []
    for variable in model.variables:
        if variable.name.startswith(begun) and "=" not in begun:
            found.append(f"{done}{variable.name}=")
        name, equals, state = begun.partition("=")
        if equals and name == variable.name:
            found += [
                f"{done}{name}={other}" for other in variable.states if other.startswith(state)
            ]
    return found


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise ConfigError(f"--seed is {seed}: it must be from 0 to 2^63 - 1")
    return seed


ModelFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Model: .uai or .bif, also with .gz.")
]
SourceFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="Model (.uai or .bif, also with .gz), or sampler (.dai) by `fit`."
    ),
]
EvidenceWords = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="NAME=STATE",
        help="An observed variable; repeat it, or separate several with commas.",
        autocompletion=complete_evidence,
    ),
]
EvidenceFile = Annotated[
    Path | None,
    typer.Option("--evidence-file", metavar="FILE", help="Observations in a UAI .evid file."),
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
    float | None, typer.Option(metavar="SECONDS", help="Time an answer may take.")
]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.", callback=_check_seed)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def _be_quiet(wanted: bool) -> bool:
    if wanted:
        show.set_verbosity(-1)
    return wanted


def _be_verbose(wanted: bool) -> bool:
    if wanted:
        show.set_verbosity(1)
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
