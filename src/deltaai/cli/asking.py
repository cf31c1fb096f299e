"""The commands that ask, and their options: ``plan``, ``check``, ``query`` and ``sample``.

What a command needs is imported when it runs, for torch takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deltaai.budget import Budget
from deltaai.cli.options import (
    AsCsv,
    AsJson,
    Device,
    Do,
    EvidenceFile,
    EvidenceWords,
    Likelihoods,
    MemoryLimit,
    ModelFile,
    Names,
    Quiet,
    Seed,
    SourceFile,
    TimeLimit,
    Verbose,
    one_format,
)
from deltaai.errors import ConfigError


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
    do: Do = None,
    likelihood: Likelihoods = None,
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
    target_stderr: Annotated[
        float | None,
        typer.Option(
            help="Standard error of log Z and of probabilities at which a sampler for one case has "
            "been trained enough (0.01)."
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
    from deltaai.answering import TableChoices, resolve, supposed
    from deltaai.cli.outputs import Output, check_outputs
    from deltaai.cli.parsing import parse_evidence, parse_likelihoods, parse_names
    from deltaai.cli.query import run_query
    from deltaai.cli.sources import model_of, read_observed, read_source
    from deltaai.cli.tables import is_table, read_cases, run_table

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
    set_to = parse_evidence(do or [], None, model)
    likely = parse_likelihoods(likelihood or [], model)
    if set_to and evidence_file is not None and is_table(evidence_file):
        source, _ = supposed(source, None, set_to, None, is_table=True)
        model, set_to = model_of(source), {}
    names = parse_names(of, model)
    given: Any
    table = None
    if evidence_file is not None and is_table(evidence_file):
        if evidence or most_likely:
            raise ConfigError("a file of many cases goes without --evidence and --map")
        if (samples > 0) != (samples_output is not None):
            raise ConfigError("--samples and --samples-output go together")
        given, table = read_cases(evidence_file, model), TableChoices(samples)
    elif samples or samples_output is not None:
        raise ConfigError("--samples is for many cases; for one, see deltaai sample")
    else:
        given = read_observed(evidence or [], evidence_file, model, budget)
    question = resolve(
        source,
        given,
        names,
        budget=budget,
        method=method,
        num_samples=num_samples,
        check_samples=check_samples,
        target_stderr=target_stderr,
        do=set_to,
        likelihood=likely,
        seed=seed,
        table=table,
    )
    if table is not None:
        run_table(question, samples_output=samples_output, output=output, is_json=json, is_csv=csv)
    else:
        run_query(question, given, most_likely=most_likely, output=output, is_json=json, is_csv=csv)


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
