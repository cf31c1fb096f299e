"""The commands of ``deltaai`` and their options: parse, call, show. No inference happens here.

What a command needs is imported when it runs, for torch takes seconds: ``--help``, ``--version``
and completion do without. How the program begins and ends is in :mod:`deltaai.cli.entry`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import deltaai
from deltaai.budget import Budget
from deltaai.cli.console import set_verbosity
from deltaai.cli.entry import main as main  # noqa: PLC0414 - where installed scripts look for it
from deltaai.cli.options import (
    AsCsv,
    AsJson,
    Device,
    EvidenceFile,
    EvidenceWords,
    MemoryLimit,
    ModelFile,
    Names,
    Quiet,
    Seed,
    SourceFile,
    TimeLimit,
    TrainingTimeLimit,
    Verbose,
    one_format,
)
from deltaai.errors import ConfigError

app = typer.Typer(
    name="deltaai",
    help="Inference in sparse graphical models: plan, check and query model files.",
    epilog="Examples that need no file: sprinkler, asia, grid, lattice; try deltaai query asia -e "
    "smoke=yes. Exit codes: 0 answered, 1 something failed, 2 input that cannot be used, 3 not "
    "within the limits of memory and time, 4 output that could not be written, 130 interrupted.",
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
    set_verbosity(0)


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
    from deltaai.cli.planning import run_plan

    budget = Budget.of(memory_limit, time_limit)
    one_format(json=json, csv=csv)
    run_plan(
        file,
        evidence or [],
        evidence_file,
        budget=budget,
        is_json=json,
        is_csv=csv,
    )


@app.command()
def check(
    file: ModelFile,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read a model, report its structure, and warn about what looks wrong."""
    from deltaai.cli.planning import run_check

    budget = Budget.of(memory_limit, time_limit)
    one_format(json=json, csv=csv)
    run_check(file, budget=budget, is_json=json, is_csv=csv)


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
    check_samples: Annotated[
        int | None,
        typer.Option(
            help="Samples of the second opinion that a sampled answer is held against (4000): "
            "more see smaller missing parts."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="With many cases: states to draw for each.")] = 0,
    samples_output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --samples: the CSV file to write them to."),
    ] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    device: Device = None,
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

    One case:   deltaai query asia --evidence smoke=yes --of lung,bronc

    Many cases: deltaai query asia --evidence-file cases.csv -o posteriors.csv
    """
    from deltaai.cli.outputs import Output, check_outputs
    from deltaai.cli.parsing import parse_names
    from deltaai.cli.query import run_query
    from deltaai.cli.sources import model_of, read_observed, read_source
    from deltaai.cli.tables import is_table, run_table

    budget = Budget.of(memory_limit, time_limit)
    one_format(json=json, csv=csv)
    check_outputs(
        [
            Output("--output", output, "answers", (".csv", ".json")),
            Output("--samples-output", samples_output, "samples", (".csv",)),
        ],
        [file, evidence_file],
    )
    if output is not None:
        json, csv = output.suffix.lower() == ".json", output.suffix.lower() == ".csv"
    source = read_source(file, budget, device)
    model = model_of(source)
    settings: dict[str, Any] = {"method": method, "seed": seed}
    given = {"num_samples": num_samples, "check_samples": check_samples}
    settings |= {name: count for name, count in given.items() if count is not None}
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
            budget=budget,
            settings=settings,
        )
        return
    if samples or samples_output is not None:
        raise ConfigError("--samples is for many cases; for one, see deltaai sample")
    run_query(
        source,
        read_observed(evidence or [], evidence_file, model, budget),
        names,
        most_likely=most_likely,
        output=output,
        is_json=json,
        is_csv=csv,
        budget=budget,
        settings=settings,
    )


@app.command()
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Begin anew, and give up a run that was interrupted."),
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


@app.command()
def sample(
    file: SourceFile,
    number: Annotated[int, typer.Option("-n", "--number", help="How many samples.")] = 1000,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    device: Device = None,
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
    from deltaai.cli.outputs import Output, check_outputs
    from deltaai.cli.sampling import run_sample
    from deltaai.cli.sources import model_of, read_observed, read_source

    budget = Budget.of(memory_limit, time_limit)
    one_format(json=json, csv=csv)
    check_outputs(
        [Output("--output", output, "samples", (".csv", ".json", ".npz"))], [file, evidence_file]
    )
    source = read_source(file, budget, device)
    run_sample(
        source,
        read_observed(evidence or [], evidence_file, model_of(source), budget),
        number,
        seed=seed,
        budget=budget,
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
        resume=resume,
        only_methods=only_methods,
        only_models=only_models,
    )


@app.command()
def demo() -> None:
    """Show the main thing in a minute: plan, train a sampler, answer, and how far to trust it."""
    from deltaai.cli.demo import run_demo

    run_demo()
