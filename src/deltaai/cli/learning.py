"""``deltaai learn``: a model from a table, and a report of how well it was learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.cli.outputs import Output, check_outputs
from deltaai.cli.progress import bars
from deltaai.cli.tables import STANDARD_INPUT, standard_input
from deltaai.errors import ConfigError
from deltaai.io import DataTable, data_from_csv, data_from_stream, model_suffixes, write
from deltaai.learning import LearnedModel, learn, structure_of


def run_learn(
    file: Path,
    output: Path,
    *,
    structure: str,
    missing: Sequence[str],
    latent: Sequence[str],
    bins: Sequence[str],
    prior: float,
    held_out: float,
    steps: int | None,
    restarts: int | None,
    seed: int,
    is_json: bool,
    is_csv: bool,
    budget: Budget,
) -> None:
    """Read, learn, write the model and say what was learned."""
    written = tuple(model_suffixes(is_written=True))
    check_outputs([Output("--output", output, "models", written)], [file])
    wanted = structure_of(structure)
    if not wanted.is_directed and ".bif" in output.suffixes:
        raise ConfigError(
            f"--structure {structure!r} has no directions, and {output} would hold a Bayesian "
            "network: write a .dai file, or a .uai file, which has no names"
        )
    with budget.watched(f"the data in {file}"):
        data = _read(file, missing, budget)
    show.detail(f"read {file}: {data.num_rows} rows, {len(data.names)} columns")
    with bars("learning") as shown:
        model = learn(
            data,
            wanted,
            latent=dict(_number_of(word, "--latent") for word in latent),
            bins=_bins(bins),
            prior=prior,
            held_out=held_out,
            steps=steps,
            restarts=restarts,
            seed=seed,
            memory_limit=budget.memory,
            time_limit=None if budget.time_limit is None else max(budget.seconds_left, 1e-3),
            progress=False if shown.fraction is None else shown.fraction,
        )
    write(model, output)
    _say(model, output, is_json=is_json, is_csv=is_csv)


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
