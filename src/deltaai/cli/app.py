"""The command ``deltaai``: parse, call, show. No inference happens here.

Exit codes: 0 for an answer, 1 for an experiment of which a part failed or for a fault of the
program, 2 for input that cannot be used (files, options, evidence), 3 for a question that is not
within the limits of memory and time, 130 after Ctrl-C (a training run or an experiment can then be
resumed).
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import deltaai
from deltaai.cli import show
from deltaai.cli.demo import run_demo
from deltaai.cli.options import (
    AsCsv,
    AsJson,
    EvidenceFile,
    EvidenceWords,
    MemoryLimit,
    ModelFile,
    Names,
    Quiet,
    Seed,
    SourceFile,
    TimeLimit,
    Verbose,
    one_format,
    read_source,
)
from deltaai.cli.parsing import parse_bytes, parse_evidence, parse_names, parse_setting
from deltaai.cli.query import run_query
from deltaai.cli.reproduce import list_experiments, run_reproduce
from deltaai.cli.sampling import run_sample
from deltaai.cli.tables import is_table, run_table
from deltaai.cli.training import run_fit
from deltaai.errors import ConfigError, DeltaAIError, NotAffordableError
from deltaai.inference import Sampler
from deltaai.inference import check as check_model
from deltaai.inference import plan as make_plan
from deltaai.io import read
from deltaai.io.source import one_line

EXIT_FAULT = 1
EXIT_BAD_INPUT = 2
EXIT_NOT_AFFORDABLE = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="deltaai",
    help="Inference in sparse graphical models: plan, check and query model files.",
    epilog="Exit codes: 0 answered, 1 something failed, 2 input that cannot be used, 3 not within "
    "the limits of memory and time, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    show.set_verbosity(0)


@app.command()
def plan(
    file: ModelFile,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what an answer would cost, one way and another, without computing it."""
    one_format(json=json, csv=csv)
    model = read(file)
    planned = make_plan(
        model,
        parse_evidence(evidence or [], evidence_file, model),
        memory_limit=parse_bytes(memory_limit),
        time_limit=time_limit,
    )
    if json:
        show.as_json(planned)
    elif csv:
        plain = show.flat(planned)
        plain["options"] = "; ".join(option.method for option in planned.options)
        show.figures_csv(plain)
    else:
        given = f", {planned.num_observed} observed" if planned.num_observed else ""
        title = f"Plan for {file.name} ({show.plural(planned.num_variables, 'variable')}{given})"
        show.figures(title, show.plan_rows(planned))


@app.command()
def check(
    file: ModelFile,
    memory_limit: MemoryLimit = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read a model, report its structure, and warn about what looks wrong."""
    one_format(json=json, csv=csv)
    report = check_model(read(file), memory_limit=parse_bytes(memory_limit))
    if json:
        show.as_json(report)
    elif csv:
        plain = show.flat(report)
        planned = plain.pop("plan")
        planned["options"] = "; ".join(option.method for option in report.plan.options)
        plain["warnings"] = "; ".join(plain["warnings"])
        show.figures_csv({**plain, **{f"plan.{name}": value for name, value in planned.items()}})
    else:
        show.figures(f"{file.name} is readable", show.report_rows(report))
        show.figures("Cost of an answer", show.plan_rows(report.plan))
        for warning in report.warnings:
            show.out.print(f"[yellow]note[/] {escape(warning)}", soft_wrap=True)
        if not report.warnings:
            show.out.print("[green]nothing suspicious[/]")


@app.command()
def query(
    file: SourceFile,
    evidence: EvidenceWords = None,
    evidence_file: Annotated[
        Path | None,
        typer.Option(
            "--evidence-file",
            metavar="FILE",
            help="Observations: one case in a UAI .evid file, or many in a .csv file with a column "
            "for each observed variable and blanks for unknown (- for standard input).",
        ),
    ] = None,
    of: Names = None,
    most_likely: Annotated[
        bool, typer.Option("--map", help="Also report the most likely joint state.")
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="auto|exact|sampler|bp",
            help="As planned; exactly; by a sampler trained for the question; or a first estimate "
            "by loopy belief propagation.",
        ),
    ] = "auto",
    num_samples: Annotated[
        int | None,
        typer.Option(help="Samples to draw where it is sampled (10000; 1000 a case of many)."),
    ] = None,
    samples: Annotated[int, typer.Option(help="With many cases: states to draw for each.")] = 0,
    samples_output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --samples: the CSV file to write them to."),
    ] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a .csv or .json file."),
    ] = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compute posterior probabilities given evidence.

    One case:   deltaai query asia.bif --evidence smoke=yes --of lung,bronc

    Many cases: deltaai query asia.bif --evidence-file cases.csv -o posteriors.csv
    """
    one_format(json=json, csv=csv)
    json, csv = _formats(output, json=json, csv=csv)
    source = read_source(file)
    model = source.model if isinstance(source, Sampler) else source
    settings = {
        "method": method,
        "memory_limit": parse_bytes(memory_limit),
        "time_limit": time_limit,
        "seed": seed,
    }
    if num_samples is not None:
        settings["num_samples"] = num_samples
    names = parse_names(of, model)
    if evidence_file is not None and is_table(evidence_file):
        if evidence or most_likely:
            raise ConfigError("a file of many cases goes without --evidence and --map")
        run_table(
            source,
            evidence_file,
            names,
            samples=samples,
            samples_output=samples_output,
            output=output,
            is_json=json,
            is_csv=csv,
            settings=settings,
        )
        return
    if samples or samples_output is not None:
        raise ConfigError("--samples is for many cases; for one, see deltaai sample")
    run_query(
        source,
        parse_evidence(evidence or [], evidence_file, model),
        names,
        most_likely=most_likely,
        output=output,
        is_json=json,
        is_csv=csv,
        settings=settings,
    )


def _formats(output: Path | None, *, json: bool, csv: bool) -> tuple[bool, bool]:
    """The format that a file's name asks for, if there is a file."""
    if output is None:
        return json, csv
    if output.suffix not in {".csv", ".json"}:
        raise ConfigError(f"{output}: answers are written to .csv or .json files")
    if not output.parent.is_dir():
        raise ConfigError(f"there is no folder {output.parent} to write {output.name} to")
    return output.suffix == ".json", output.suffix == ".csv"


@app.command()
def fit(
    file: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write the sampler.")
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
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time to train at most.")
    ] = None,
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
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

    The state of the run is kept in OUT.checkpoint; an interrupted run goes on with --resume.
    """
    one_format(json=json, csv=csv)
    chosen = dict(parse_setting(word) for word in settings or ())
    named = {
        "objective": None if objective == "delta" else objective,
        "steps": steps,
        "time_limit": time_limit,
        "smoothing": smoothing,
    }
    run_fit(
        file,
        output,
        orders=orders,
        seed=seed,
        resume=resume,
        metrics=metrics,
        evidence=evidence,
        is_json=json,
        is_csv=csv,
        settings=chosen | {name: value for name, value in named.items() if value is not None},
    )


@app.command()
def sample(
    file: SourceFile,
    number: Annotated[int, typer.Option("-n", "--number", help="How many samples.")] = 1000,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    memory_limit: MemoryLimit = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to .csv, .json or .npz."),
    ] = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw samples from a trained sampler, or exact ones from a model that is narrow enough.

    Example: deltaai sample grid.dai -n 1000 --evidence x3=1 -o samples.csv
    """
    one_format(json=json, csv=csv)
    source = read_source(file)
    model = source.model if isinstance(source, Sampler) else source
    run_sample(
        source,
        parse_evidence(evidence or [], evidence_file, model),
        number,
        seed=seed,
        memory_limit=parse_bytes(memory_limit),
        output=output,
        is_json=json,
        is_csv=csv,
    )


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
    quiet: Quiet = False,
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


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may know fewer characters than we
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except NotAffordableError as error:
        _fail(str(error), EXIT_NOT_AFFORDABLE)
    except DeltaAIError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except MemoryError:
        _fail("there is not enough memory for this: ask for less at a time", EXIT_NOT_AFFORDABLE)
    except Exception as error:
        if "allocate memory" in str(error):  # as torch says it
            _fail("there is not enough memory: ask for less at a time", EXIT_NOT_AFFORDABLE)
        if show.is_verbose():
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _fail(
            f"this should not have happened ({what}); please report it, with what --verbose says",
            EXIT_FAULT,
        )


def _fail(message: str, code: int) -> None:
    text = one_line(message, longest=3000)
    typer.echo(f"error: {text}" if code != EXIT_INTERRUPTED else text, err=True)
    sys.exit(code)
