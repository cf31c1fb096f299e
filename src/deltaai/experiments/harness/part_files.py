"""A finished part on disk: a CSV file whose first line says what made it.

    # {"experiment": "...", "jobs": 2, "machine": "...", "part": {...}, "seconds": 12.3}
    step,seconds,metric,value
    0,0.0,nll_gap,3.25

The first line is a comment for readers of CSV and JSON for this file. A file is written in one
piece, so one that exists is complete. It counts for a part if its model, method, seed, scale and
settings are the same. A part that failed leaves the trace of its error in a text file beside it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from deltaai.errors import DeltaAIError, FormatError, one_line
from deltaai.experiments.harness.parts import Part, Row
from deltaai.io import replace_file

COLUMNS = ("step", "seconds", "metric", "value")
FOLDER = "parts"


@dataclass(frozen=True)
class FinishedPart:
    """The rows of a part and how they came about.

    Parameters
    ----------
    experiment : name of the experiment.
    part : what was run.
    rows : what it yielded.
    seconds : wall-clock time of the whole part, measuring included.
    jobs : how many parts ran side by side.
    machine : cores and versions, see :func:`describe_machine`.
    """

    experiment: str
    part: Part
    rows: tuple[Row, ...]
    seconds: float | int
    jobs: int
    machine: str


def part_path(folder: Path, part: Part) -> Path:
    """Where the rows of a part are kept."""
    return folder / FOLDER / f"{part.name}.csv"


def error_path(folder: Path, part: Part) -> Path:
    """Where the trace of a failed part is kept."""
    return folder / FOLDER / f"{part.name}.error.txt"


def write_part(folder: Path, finished: FinishedPart) -> None:
    """Write a finished part, and forget its earlier failure if there was one."""
    stream = io.StringIO()
    header = {name: value for name, value in asdict(finished).items() if name != "rows"}
    header["part"]["settings"] = dict(finished.part.settings)
    stream.write(f"# {json.dumps(header, sort_keys=True)}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in finished.rows:
        writer.writerow((row.step, repr(float(row.seconds)), row.metric, repr(float(row.value))))
    replace_file(part_path(folder, finished.part), stream.getvalue().encode())
    error_path(folder, finished.part).unlink(missing_ok=True)


def read_part(path: Path) -> FinishedPart:
    """Read a finished part.

    Raises
    ------
    FormatError
        If the file is not one that :func:`write_part` wrote.
    """
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        header = json.loads(first.removeprefix("# "))
        rows = tuple(
            Row(int(row["step"]), float(row["seconds"]), row["metric"], float(row["value"]))
            for row in csv.DictReader(io.StringIO(rest))
        )
        part = Part(**header.pop("part"))
        finished = FinishedPart(part=part, rows=rows, **header)
        _check_types(finished)
        return finished
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror}") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        csv.Error,
        DeltaAIError,
    ) as error:
        reason = one_line(repr(error), 300)
        raise FormatError(
            path, None, f"not the file of a finished part ({reason}); delete it to run it again"
        ) from None


def _check_types(finished: FinishedPart) -> None:
    """Refuse what JSON could hold and :func:`write_part` never writes."""
    part = finished.part
    for name, value, kinds in (
        ("experiment", finished.experiment, (str,)),
        ("machine", finished.machine, (str,)),
        ("seconds", finished.seconds, (int, float)),
        ("jobs", finished.jobs, (int,)),
        ("seed", part.seed, (int,)),
        *(
            (f"setting {key}", value, (str, int, float, bool))
            for key, value in part.options.items()
        ),
        *(("metric", row.metric, (str,)) for row in finished.rows),
    ):
        if type(value) not in kinds:
            raise TypeError(f"{name} is {value!r}")


def read_parts(folder: Path) -> list[FinishedPart]:
    """Read all finished parts of a folder, in the order of their names."""
    return [read_part(path) for path in sorted((folder / FOLDER).glob("*.csv"))]


def describe_machine() -> str:
    """Cores and versions; nothing that names the machine or its owner.

    >>> "torch" in describe_machine()
    True
    """
    cores = os.cpu_count() or 1
    kind = f"{platform.system()} {platform.machine()}"
    python = platform.python_version()
    return f"{cores} cores, {kind}, Python {python}, torch {torch.__version__}"
