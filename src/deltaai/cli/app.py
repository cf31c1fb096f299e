"""The command ``deltaai``: parse, call, show. No inference happens here.

Exit codes: 0 for an answer, 1 for an experiment of which a part failed, 2 for input that cannot be
used (files, options, evidence), 3 for a question that does not fit the memory limit, 130 after
Ctrl-C (a training run or an experiment can then be resumed).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import deltaai
from deltaai.cli import show
from deltaai.cli.demo import run_demo
from deltaai.cli.parsing import parse_bytes, parse_evidence, parse_names
from deltaai.cli.query import run_query
from deltaai.cli.reproduce import list_experiments, run_reproduce
from deltaai.cli.training import run_fit, run_sample
from deltaai.errors import DeltaAIError, MemoryLimitError
from deltaai.inference import check as check_model
from deltaai.inference import plan as make_plan
from deltaai.io import read

EXIT_BAD_INPUT = 2
EXIT_NOT_AFFORDABLE = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="deltaai",
    help="Inference in sparse graphical models: plan, check and query model files.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Model: .uai or .bif, also with .gz.")
]
EvidenceWords = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="NAME=STATE",
        help="An observed variable; repeat it, or separate several with commas.",
    ),
]
EvidenceFile = Annotated[
    Path | None,
    typer.Option("--evidence-file", metavar="FILE", help="Observations in a UAI .evid file."),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory an answer may use, such as 4GB. Default: half of what is free."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"deltaai {deltaai.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def plan(
    file: ModelFile,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    memory_limit: MemoryLimit = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Say what an exact answer would cost, without computing it."""
    _one_format(json, csv)
    model = read(file)
    observed = parse_evidence(evidence or [], evidence_file, model)
    planned = make_plan(model, observed, memory_limit=parse_bytes(memory_limit))
    if json:
        show.as_json(planned)
    elif csv:
        show.figures_csv(show.flat(planned))
    else:
        given = f", {planned.num_observed} observed" if planned.num_observed else ""
        title = f"Plan for {file.name} ({show.plural(planned.num_variables, 'variable')}{given})"
        show.figures(title, show.plan_rows(planned))


@app.command()
def check(
    file: ModelFile, memory_limit: MemoryLimit = None, json: AsJson = False, csv: AsCsv = False
) -> None:
    """Read a model, report its structure, and warn about what looks wrong."""
    _one_format(json, csv)
    report = check_model(read(file), memory_limit=parse_bytes(memory_limit))
    if json:
        show.as_json(report)
    elif csv:
        plain = show.flat(report)
        planned = plain.pop("plan")
        plain["warnings"] = "; ".join(plain["warnings"])
        show.figures_csv({**plain, **{f"plan.{name}": value for name, value in planned.items()}})
    else:
        show.figures(f"{file.name} is readable", show.report_rows(report))
        show.figures("Cost of an exact answer", show.plan_rows(report.plan))
        for warning in report.warnings:
            show.out.print(f"[yellow]note[/] {escape(warning)}", soft_wrap=True)
        if not report.warnings:
            show.out.print("[green]nothing suspicious[/]")


@app.command()
def query(
    file: ModelFile,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    of: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Variables to report, separated by commas (all)."),
    ] = None,
    most_likely: Annotated[
        bool, typer.Option("--map", help="Also report the most likely joint state.")
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="exact|sampler|auto",
            help="Exactly, by a sampler trained for the question, or so where exact does not fit.",
        ),
    ] = "exact",
    memory_limit: MemoryLimit = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds to train a sampler at most.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a sampler's randomness.")] = 0,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Compute posterior probabilities given evidence.

    Example: deltaai query asia.bif --evidence smoke=yes --of lung,bronc
    """
    _one_format(json, csv)
    model = read(file)
    run_query(
        model,
        parse_evidence(evidence or [], evidence_file, model),
        parse_names(of, model),
        method=method,
        memory_limit=parse_bytes(memory_limit),
        time_limit=time_limit,
        seed=seed,
        most_likely=most_likely,
        is_json=json,
        is_csv=csv,
    )


@app.command()
def fit(
    file: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write the sampler.")
    ],
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
    time_limit: Annotated[float | None, typer.Option(help="Seconds to train at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the course of training (.jsonl, .csv)."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Train a sampler for a model and write it to a file.

    The state of the run is kept in OUT.checkpoint; an interrupted run goes on with --resume.
    """
    run_fit(
        file,
        output,
        orders=orders,
        seed=seed,
        resume=resume,
        metrics=metrics,
        is_json=json,
        settings={
            name: value
            for name, value in (
                ("objective", None if objective == "delta" else objective),
                ("steps", steps),
                ("time_limit", time_limit),
            )
            if value is not None
        },
    )


@app.command()
def sample(
    file: Annotated[Path, typer.Argument(metavar="SAMPLER", help="A file that `fit` wrote.")],
    number: Annotated[int, typer.Option("-n", "--number", help="How many samples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to .csv or .npz.")
    ] = None,
    csv: AsCsv = False,
) -> None:
    """Draw samples from a trained sampler."""
    run_sample(file, number, seed=seed, output=output, is_csv=csv)


@app.command()
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
    seeds: Annotated[int, typer.Option(help="Random seeds for each method.")] = 3,
    jobs: Annotated[int, typer.Option(help="Parts that run side by side.")] = 2,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what the folder holds, run what is missing.")
    ] = False,
    only_methods: Annotated[
        str | None, typer.Option(metavar="KEYS", help="Run these methods, separated by commas.")
    ] = None,
    only_models: Annotated[
        str | None, typer.Option(metavar="KEYS", help="Run these models, separated by commas.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
) -> None:
    """Run an experiment of the paper and write its table, picture and summary.

    Example: deltaai reproduce synthetic-gfn --scale smoke --seeds 2 --out results
    """
    if list_:
        list_experiments()
        return
    run_reproduce(
        name,
        out,
        scale=scale,
        num_seeds=seeds,
        jobs=jobs,
        resume=resume,
        only_methods=only_methods,
        only_models=only_models,
    )


@app.command()
def demo() -> None:
    """Answer questions about two built-in models, from structure to samples."""
    run_demo()


def _one_format(json: bool, csv: bool) -> None:
    if json and csv:
        raise DeltaAIError("choose one of --json and --csv")


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    try:
        app()
    except MemoryLimitError as error:
        _fail(error, EXIT_NOT_AFFORDABLE)
    except DeltaAIError as error:
        _fail(error, EXIT_BAD_INPUT)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _fail(error: Exception, code: int) -> None:
    typer.echo(f"error: {error}", err=True)
    sys.exit(code)
