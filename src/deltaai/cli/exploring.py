"""The commands that explore what a model says: conditional tables, events, what to observe next.

What a command needs is imported when it runs, for torch takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaai.budget import Budget
from deltaai.cli.completion import complete_names
from deltaai.cli.options import (
    AsCsv,
    AsJson,
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

if TYPE_CHECKING:
    from pathlib import Path

    from deltaai.fitting import Sampler
    from deltaai.models import FactorGraph

Target = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The variable to tell of.", autocompletion=complete_names),
]
NumSamples = Annotated[
    int | None, typer.Option(help="Samples to draw where it is sampled (1000 a case).")
]


def conditional(
    file: SourceFile,
    target: Target,
    given: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="The variables to condition on, separated by commas.",
            autocompletion=complete_names,
        ),
    ],
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    do: Do = None,
    likelihood: Likelihoods = None,
    num_samples: NumSamples = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print the table of one variable given all states of some others.

    Example: deltaai conditional asia lung --given smoke,bronc -e xray=yes
    """
    from deltaai.answering import conditional as ask
    from deltaai.cli import show
    from deltaai.cli.parsing import parse_names

    asked = _Asked.read(file, evidence, evidence_file, do, likelihood, memory_limit, time_limit)
    one_format(json=json, csv=csv)
    names = parse_names(given, asked.model)
    found = asked.put(ask, target, names, num_samples=num_samples, seed=seed)
    states = asked.model.variables[asked.model.index(target)].states
    rows = list(
        zip(found.labels, found.answer.probabilities.tolist(), found.answer.status, strict=True)
    )
    if json:
        show.as_json(
            {
                "target": found.target,
                "given": found.given,
                "status": found.status,
                "doubts": [doubt for doubt in dict.fromkeys(found.answer.doubts) if doubt],
                "rows": [
                    {
                        "given": dict(zip(found.given, label, strict=True)),
                        "status": status,
                        "probabilities": dict(zip(states, row, strict=True)),
                    }
                    for label, row, status in rows
                ],
            }
        )
        return
    header = [*found.given, *(f"{target}={state}" for state in states), "status"]
    if csv:
        show.emit(show.csv_text([header, *([*a, *b, c] for a, b, c in rows)]), None)
        return
    shown = [[*label, *(f"{p:.4f}" for p in row), status] for label, row, status in rows]
    show.rows_table(header, shown, len(shown))
    show.doubts(doubt for doubt in dict.fromkeys(found.answer.doubts) if doubt)


def informative(
    file: SourceFile,
    target: Target,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    among: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Variables that could be observed, separated by commas (all others).",
            autocompletion=complete_names,
        ),
    ] = None,
    do: Do = None,
    likelihood: Likelihoods = None,
    num_samples: NumSamples = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Rank variables by how much they would tell about another: what to observe next.

    Example: deltaai informative asia lung -e dysp=yes
    """
    from deltaai.answering import informative as ask
    from deltaai.cli import show
    from deltaai.cli.parsing import parse_names

    asked = _Asked.read(file, evidence, evidence_file, do, likelihood, memory_limit, time_limit)
    one_format(json=json, csv=csv)
    some = parse_names(among, asked.model)
    found = asked.put(ask, target, among=some, num_samples=num_samples, seed=seed)
    if json:
        told = {name: getattr(found, name) for name in ("target", "entropy", "status", "doubts")}
        show.as_json({**told, "information": found.information})
        return
    header = ["variable", "nats", "share"]
    if csv:
        show.emit(show.csv_text([header, *found.rows()]), None)
        return
    rows = [[name, f"{value:.6f}", f"{share:.1%}"] for name, value, share in found.rows()]
    show.rows_table(header, rows, len(rows))
    show.figures(
        "", [("uncertainty", f"{found.entropy:.6g} nats about {target}"), ("status", found.status)]
    )
    show.doubts(found.doubts)


def conflict(
    file: SourceFile,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    do: Do = None,
    likelihood: Likelihoods = None,
    num_samples: NumSamples = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say whether findings fit together, and which of them does not.

    Example: deltaai conflict asia -e xray=yes,smoke=no,dysp=no
    """
    from deltaai.answering import conflict as ask
    from deltaai.cli import show

    asked = _Asked.read(file, evidence, evidence_file, do, likelihood, memory_limit, time_limit)
    one_format(json=json, csv=csv)
    observed, asked.observed = asked.observed, {}
    found = asked.put(ask, observed, num_samples=num_samples, seed=seed)
    rows = [(name, math.exp(a), math.exp(b)) for name, (a, b) in found.findings.items()]
    if json:
        told = {"conflict": found.value, "status": found.status, "doubts": found.doubts}
        findings = {name: {"alone": a, "given_others": b} for name, a, b in rows}
        show.as_json({**told, "findings": findings})
        return
    header = ["finding", "alone", "given the others"]
    if csv:
        show.emit(show.csv_text([header, *rows]), None)
        return
    shown = [[name, f"{a:.6f}", f"{b:.6f}"] for name, a, b in rows]
    show.rows_table(header, shown, len(shown))
    words = "they do not fit together" if found.value > 0 else "they support each other"
    show.figures("", [("conflict", f"{found.value:.6g} nats: {words}"), ("status", found.status)])
    show.doubts(found.doubts)


def probability(
    file: SourceFile,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="Comparisons NAME=STATE or NAME!=STATE, joined by and, or, not, parentheses.",
        ),
    ],
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    do: Do = None,
    likelihood: Likelihoods = None,
    num_samples: Annotated[
        int | None, typer.Option(help="Samples to draw where it is sampled (10000).")
    ] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compute the probability that several variables are as an expression says.

    Example: deltaai probability asia "lung=yes or (tub=yes and not smoke=no)" -e dysp=yes
    """
    from deltaai.answering import probability as ask
    from deltaai.cli import show

    asked = _Asked.read(file, evidence, evidence_file, do, likelihood, memory_limit, time_limit)
    found = asked.put(ask, event, num_samples=num_samples, seed=seed)
    if json:
        names = ("event", "stderr", "status", "doubts")
        show.as_json({"probability": found.value, **{n: getattr(found, n) for n in names}})
        return
    spread = "" if found.status == "exact" else f" ± {found.stderr:.2g}"
    rows = [("probability", f"{found.value:.9g}{spread}"), ("status", found.status)]
    show.figures(found.event, rows)
    show.doubts(found.doubts)


def most_likely(
    file: ModelFile,
    evidence: EvidenceWords = None,
    evidence_file: EvidenceFile = None,
    of: Names = None,
    do: Do = None,
    likelihood: Likelihoods = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="auto|exact|search|toulbar2",
            help="Exactly where tables fit and else by search; one of them; or proven by toulbar2 "
            "if it has the time.",
        ),
    ] = "auto",
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    json: AsJson = False,
    csv: AsCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the most likely joint state, or the best that a search finds and how far off it may be.

    Example: deltaai most-likely lattice -e x0=1 --time-limit 30
    """
    from deltaai.answering import most_likely as ask
    from deltaai.cli import show
    from deltaai.cli.parsing import parse_names
    from deltaai.display import listing

    asked = _Asked.read(file, evidence, evidence_file, do, likelihood, memory_limit, time_limit)
    one_format(json=json, csv=csv)
    names = parse_names(of, asked.model) or [variable.name for variable in asked.model.variables]
    found = asked.put(ask, method=method, seed=seed)
    labels = {name: found.labels[name] for name in names if name in found.labels}
    if json:
        told = {name: getattr(found, name) for name in ("log_score", "upper", "status", "method")}
        show.as_json({**told, "states": labels})
        return
    if csv:
        show.emit(show.csv_text([["variable", "state"], *labels.items()]), None)
        if found.status != "exact":
            show.note(f"{found.status}: log score {found.log_score:.9g}, at most {found.upper:.9g}")
        return
    rows = [("log score", f"{found.log_score:.9g}")]
    if found.status != "exact":
        rows.append(("at most", f"{found.upper:.9g}"))
    said = listing(f"{name}={state}" for name, state in labels.items())
    rows += [("status", found.status), ("method", found.method), ("most likely", said)]
    show.figures("", [*rows, ("time", f"{found.seconds:.3f} s")])


class _Asked:
    """What all of them read: a source, what was observed, and what is supposed of it."""

    def __init__(self, source: FactorGraph | Sampler, model: FactorGraph, budget: Budget) -> None:
        self.source, self.model, self.budget = source, model, budget
        self.observed: dict[str, Any] = {}
        self.suppositions: dict[str, Any] = {}

    @classmethod
    def read(
        cls,
        file: Path,
        evidence: Sequence[str] | None,
        evidence_file: Path | None,
        do: Sequence[str] | None,
        likelihood: Sequence[str] | None,
        memory_limit: str | None,
        time_limit: float | None,
    ) -> _Asked:
        """Read a model or a sampler, and everything about it that was typed."""
        from deltaai.cli.parsing import parse_evidence, parse_likelihoods
        from deltaai.cli.sources import model_of, read_observed, read_source
        from deltaai.cli.tables import is_table

        budget = Budget.of(memory_limit, time_limit)
        if is_table(evidence_file):
            raise ConfigError(
                "--evidence-file is one case here, in a .evid file: see query for many"
            )
        source = read_source(file, budget)
        asked = cls(source, model_of(source), budget)
        asked.observed = read_observed(evidence or [], evidence_file, asked.model, budget)
        if do:
            asked.suppositions["do"] = parse_evidence(do, None, asked.model)
        if likelihood:
            asked.suppositions["likelihood"] = parse_likelihoods(likelihood, asked.model)
        return asked

    def put(self, ask: Any, *what: Any, **settings: Any) -> Any:  # noqa: ANN401
        """Ask, within what is left of the limits."""
        from deltaai.cli.console import has_progress

        limits: dict[str, Any] = {"memory_limit": self.budget.memory, "progress": has_progress()}
        if self.budget.time_limit is not None:
            limits["time_limit"] = self.budget.seconds_left
        if self.observed:
            settings["evidence"] = self.observed
        return ask(self.source, *what, **settings, **self.suppositions, **limits)
