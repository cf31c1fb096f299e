"""``deltaai reproduce``: a figure of the paper from one command, with progress and a summary."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer
from rich.markdown import Markdown

from deltaai.cli import show
from deltaai.cli.parts_bar import parts_bar
from deltaai.errors import ConfigError
from deltaai.experiments import (
    Experiment,
    Reproduction,
    experiment_names,
    find_experiment,
)
from deltaai.experiments import reproduce as run

EXIT_PART_FAILED = 1
_MOST_SEEDS = 1000
_ALL = "all"


def list_experiments() -> None:
    """Print every experiment with one line about it."""
    rows = [(name, find_experiment(name).description) for name in experiment_names()]
    show.figures("Experiments", rows)


def run_reproduce(
    name: str | None,
    out: Path | None,
    *,
    scale: str,
    num_seeds: int | None,
    jobs: int,
    threads: int,
    resume: bool,
    only_methods: str | None,
    only_models: str | None,
    orders: str | None,
    time_limit: float | None,
    clock: str | None,
    data_dir: Path | None,
) -> None:
    """Run an experiment, show its summary, and say what was written."""
    if name is None:
        raise ConfigError(f"name an experiment: {', '.join(experiment_names())}")
    experiment = find_experiment(name)
    if out is None:
        raise ConfigError("say where the results go: --out DIR")
    if not str(out).isprintable():
        raise ConfigError(f"--out is {str(out)!r}: give a folder with a name that can be printed")
    num_seeds = experiment.num_seeds if num_seeds is None else num_seeds
    if not 1 <= num_seeds <= _MOST_SEEDS:
        raise ConfigError(f"--seeds is {num_seeds}: it must be from 1 to {_MOST_SEEDS}")
    words = ["deltaai", "reproduce", experiment.name, "--scale", scale, "--seeds", str(num_seeds)]
    words += ["--jobs", str(jobs)]
    words += [] if threads == 1 else ["--threads", str(threads)]
    for option, keys in (("--only-methods", only_methods), ("--only-models", only_models)):
        words += [option, keys] if keys is not None else []
    words += [] if orders is None else ["--orders", orders]
    words += [] if time_limit is None else ["--time-limit", f"{time_limit:g}"]
    words += [] if clock is None else ["--clock", clock]
    try:
        with parts_bar() as watch:
            done = run(
                experiment,
                out,
                scale=scale,
                num_seeds=num_seeds,
                jobs=jobs,
                threads=threads,
                resume=resume,
                only_methods=_methods(only_methods, experiment),
                only_models=_keys(only_models),
                time_limit=time_limit,
                clock=clock,
                data_dir=data_dir,
                orders=orders,
                # The folder's name only: where it stands is no business of the reader.
                command=shlex.join([*words, "--out", out.resolve().name]),
                watch=watch,
            )
    except KeyboardInterrupt:
        words += [] if data_dir is None else ["--data-dir", str(data_dir)]
        again = shlex.join([*words, "--out", str(out), "--resume"])
        show.err.print(
            f"stopped; finished parts are kept, continue with: {again}",
            markup=False,
            soft_wrap=True,
        )
        raise
    _show(done)
    if done.failures:
        raise typer.Exit(EXIT_PART_FAILED)


def _show(done: Reproduction) -> None:
    text = next(path for path in done.files if path.suffix == ".md").read_text(encoding="utf-8")
    if show.out.is_terminal:
        show.out.print(Markdown(text))
    else:
        sys.stdout.write(text)
    show.out.print(f"\n{show.plural(done.num_run, 'part')} run, {done.num_kept} already there")
    for path in done.files:
        show.out.print(f"wrote {path}", markup=False, soft_wrap=True)
    for remark in done.remarks:
        show.err.print(f"note: {remark}", markup=False, soft_wrap=True)
    if done.failures:
        show.err.print(
            f"{show.plural(len(done.failures), 'part')} failed (traces in parts/*.error.txt); "
            "run the same command with --resume to try again",
            markup=False,
            soft_wrap=True,
        )


def _methods(text: str | None, experiment: Experiment) -> list[str] | None:
    """Keys of methods; the one word ``all`` stands for every one, unless a method is called so."""
    keys = _keys(text)
    if keys == [_ALL] and _ALL not in experiment.method_labels:
        return list(experiment.method_labels)
    return keys


def _keys(text: str | None) -> list[str] | None:
    return None if text is None else [key.strip() for key in text.split(",") if key.strip()]
