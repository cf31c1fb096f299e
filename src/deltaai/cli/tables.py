"""``deltaai query --evidence-file cases.csv``: many cases in, a table of posteriors out."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.markup import escape

from deltaai.cli import show
from deltaai.cli.outputs import Failures
from deltaai.cli.progress import bars
from deltaai.cli.query import nothing_kept
from deltaai.errors import DeltaAIError
from deltaai.inference import Sampler, TableAnswer
from deltaai.inference.table_query import query_table
from deltaai.io import read_evidence_table
from deltaai.io.evidence_table import rows_from_csv
from deltaai.io.files import source_of
from deltaai.models import FactorGraph

STANDARD_INPUT = Path("-")
_SUFFIXES = (".csv", ".csv.gz")


def is_table(path: Path | None) -> bool:
    """Whether a file of evidence has many cases, by its name."""
    return path is not None and (path == STANDARD_INPUT or path.name.lower().endswith(_SUFFIXES))


def run_table(
    source: FactorGraph | Sampler,
    file: Path,
    names: list[str] | None,
    *,
    samples: int,
    samples_output: Path | None,
    output: Path | None,
    is_json: bool,
    is_csv: bool,
    settings: dict[str, Any],
) -> None:
    """Ask about every case, and show or write the answers."""
    if (samples > 0) != (samples_output is not None):
        raise DeltaAIError("--samples and --samples-output go together")
    model = source.model if isinstance(source, Sampler) else source
    if file == STANDARD_INPUT:
        rows = rows_from_csv(source_of(_standard_input(), "standard input"), model)
    else:
        rows = read_evidence_table(file, model)
    show.detail(f"read {file}: {show.plural(len(rows), 'case')}")
    with bars("answering") as shown, nothing_kept():
        reports: dict[str, Any] = {"progress": shown.fraction or False, "watch": shown.training}
        answer = query_table(source, rows, names, samples=samples, **settings, **reports)
    show.notes(answer.notes)
    failures = Failures()
    if samples_output is not None:
        header = ["row", "sample", *(variable.name for variable in model.variables)]
        with failures.kept():
            show.emit(show.csv_text([header, *answer.sample_cells()]), samples_output)
    with failures.kept():
        if is_json:
            show.emit(show.json_text(_document(answer)), output)
        elif is_csv or output is not None:
            show.emit(show.csv_text([answer.header(), *answer.cells()]), output)
            show.note(_summary(answer))
        else:
            _print(answer)
    failures.tell()


def _standard_input() -> bytes:
    """All of it as it comes: a stream of text would decode it by the locale."""
    binary = getattr(sys.stdin, "buffer", None)
    return bytes(binary.read()) if binary is not None else sys.stdin.read().encode()


def _document(answer: TableAnswer) -> dict[str, Any]:
    rows = [
        {
            "status": answer.status[row],
            "log_partition": answer.log_partition[row],
            "stderr": answer.stderr[row],
            "ess": answer.ess[row],
            "khat": answer.khat[row],
            "visible_share": answer.visible_share[row],
            "doubts": answer.doubts[row],
            "probabilities": dict(
                zip(answer.columns, answer.probabilities[row].tolist(), strict=True)
            ),
        }
        for row in range(len(answer))
    ]
    about = {"method": answer.method, "seconds": answer.seconds, "notes": answer.notes}
    return about | {"rows": rows}


def _summary(answer: TableAnswer) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in Counter(answer.status).most_common())
    cases = show.plural(len(answer), "case")
    return f"{cases} in {answer.seconds:.2f} s by {answer.method}: {counts or 'none'}"


def _print(answer: TableAnswer) -> None:
    show.rows_table(
        ["case", *answer.columns, "log Z", "status"],
        (
            [str(row), *(f"{p:.4f}" for p in probabilities), f"{log_z:.4f}", status]
            for row, (probabilities, log_z, status) in enumerate(
                zip(
                    answer.probabilities.tolist(),
                    answer.log_partition.tolist(),
                    answer.status,
                    strict=True,
                ),
                start=1,
            )
        ),
        len(answer),
    )
    show.out.print(escape(_summary(answer)), soft_wrap=True)
    common = Counter(filter(None, answer.doubts)).most_common(5)
    show.doubts(f"{show.plural(count, 'case')}: {doubt}" for doubt, count in common)
