"""``deltaai learn``: a model from a table, and a report of how well it was learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.cli.outputs import Output, check_outputs
from deltaai.cli.progress import bars
from deltaai.cli.run_file import RunFile
from deltaai.cli.tables import STANDARD_INPUT, standard_input
from deltaai.errors import ConfigError
from deltaai.io import DataTable, data_from_csv, data_from_stream, model_suffixes, write
from deltaai.learning import (
    LearnedModel,
    LearningChoices,
    Structure,
    learn_within,
    wanted_structure,
)


def run_learn(
    file: Path,
    output: Path,
    *,
    structure: str | None,
    missing: Sequence[str],
    latent: Sequence[str],
    bins: Sequence[str],
    checkpoint: Path | None,
    is_json: bool,
    is_csv: bool,
    budget: Budget,
    settings: dict[str, Any],
) -> None:
    """Read, learn, write the model and say what was learned."""
    run_file, written = RunFile.of(output, checkpoint), tuple(model_suffixes(is_written=True))
    inputs = [file, settings["start"], None if structure is None else Path(structure)]
    check_outputs([Output("--output", output, "models", written), run_file.output], inputs)
    choices = LearningChoices(
        latent=dict(_number_of(word, "--latent") for word in latent),
        bins=_bins(bins),
        checkpoint=run_file.path,
        **settings,
    )
    run_file.settle(resume=choices.resume, restart=choices.restart)
    with budget.watched("the structure"):
        wanted, start = wanted_structure(structure, choices.start)
    _refuse_undirected(wanted, output)
    with budget.watched(f"the data in {file}"):
        data = _read(file, missing, budget)
    show.detail(f"read {file}: {data.num_rows} rows, {len(data.names)} columns")
    with run_file.kept():
        with bars("learning") as shown:
            report = False if shown.fraction is None else shown.fraction
            model = learn_within(budget, data, wanted, start, choices, report)
        write(model, output)
    _say(model, output, is_json=is_json, is_csv=is_csv)


def _refuse_undirected(structure: Structure, output: Path) -> None:
    if not structure.is_directed and ".bif" in [suffix.lower() for suffix in output.suffixes]:
        raise ConfigError(
            f"the structure ({structure.name}) has no directions, and {output} would hold a "
            "Bayesian network: write a .dai file, or a .uai file, which has no names"
        )


def _read(file: Path, missing: Sequence[str], budget: Budget) -> DataTable:
    if file == STANDARD_INPUT:
        return data_from_stream(standard_input(), "standard input", missing, budget)
    return data_from_csv(file, missing, budget)


def _number_of(word: str, option: str) -> tuple[str, int]:
    name, is_there, number = word.rpartition("=")
    if not is_there or not name or not number.isdecimal():
        raise ConfigError(f"{option} is {word!r}: write NAME=NUMBER, such as cause=3")
    return name, int(number)


def _bins(words: Sequence[str]) -> int | dict[str, int] | None:
    """One number for all columns, or some by name."""
    if len(words) == 1 and words[0].isdecimal():
        return int(words[0])
    return dict(_number_of(word, "--bins") for word in words) or None


def _say(model: LearnedModel, output: Path, *, is_json: bool, is_csv: bool) -> None:
    report = model.report
    if is_json:
        show.as_json({"model": str(output), **report.to_dict()})
    elif is_csv:
        found = report.to_dict()
        found.pop("surprise"), found.pop("notes")
        show.figures_csv({"model": str(output), **found})
    else:
        show.figures(f"Learned, and written to {output}", report.rows)
        show.note(f"ask it: deltaai query {output}")
