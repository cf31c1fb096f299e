"""From an experiment to its files: run what is missing, then table, picture and summary.

A folder belongs to one experiment at one scale. Finished parts in it are never run again unless
their settings have changed, so the same call continues a run that was interrupted, adds seeds or
methods to one that is complete, or only builds the files anew. What goes into the files is all that
the folder holds, whichever call computed it.

This file decides what to run; :mod:`deltaai.experiments.harness.runner` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deltaai.arguments import checked_choice
from deltaai.errors import ConfigError, DeltaAIError, did_you_mean
from deltaai.errors import Setting as Named
from deltaai.experiments.harness.part_files import (
    FOLDER,
    FinishedPart,
    describe_machine,
    error_path,
    read_parts,
    write_part,
)
from deltaai.experiments.harness.parts import CLOCKS, Experiment, Part, Setting, Surroundings
from deltaai.experiments.harness.plots import NoPlotError, write_plot
from deltaai.experiments.harness.results import with_levels, write_table
from deltaai.experiments.harness.runner import Outcome, Standing, run_parts
from deltaai.experiments.harness.summary import summary_text
from deltaai.io import check_replaceable, replace_file

ORDERS = ("one", "many")
SURROUNDINGS = "state"  # folder of what parts keep


class FolderError(DeltaAIError):
    """A folder that results must not be written to."""


@dataclass(frozen=True)
class Reproduction:
    """What a call did.

    Parameters
    ----------
    files : what was written, in the order table, picture, summary.
    finished : all parts the files are made of.
    failures : outcomes of the parts that failed.
    num_run : parts that were run now, failed ones included.
    num_kept : parts that were asked for and already there.
    remarks : what the reader must know, such as a picture that could not be drawn.
    """

    files: tuple[Path, ...]
    finished: tuple[FinishedPart, ...]
    failures: tuple[Outcome, ...]
    num_run: int
    num_kept: int
    remarks: tuple[str, ...]


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    scale: str = "small",
    num_seeds: int | None = None,
    resume: bool = False,
    jobs: int = 1,
    threads: int = 1,
    only_methods: Collection[str] | None = None,
    only_models: Collection[str] | None = None,
    time_limit: float | int | None = None,
    clock: str | None = None,
    data_dir: Path | None = None,
    orders: str | None = None,
    command: str = "",
    watch: Callable[[Standing], None] | None = None,
) -> Reproduction:
    """Run the parts of an experiment that are missing in a folder, and write its files.

    Parameters
    ----------
    experiment : what to run.
    folder : where parts and files go; created if it is not there.
    scale, num_seeds : which parts there are; by default as many seeds as the experiment says.
    resume : whether the folder may hold results already.
    jobs : parts at a time.
    threads : of the compiled passes of each part.
    only_methods, only_models : keys to restrict this call to.
    time_limit : seconds of training of each part, in place of those of the scale.
    clock : what these seconds are: ``"wall"``, or ``"processor"``, which other work on the machine
        does not count in.
    data_dir : where data sets are.
    orders : keep the parts of one order, or of many; all by default.
    command : what to print in the summary as the way to get it.
    watch : called whenever a part starts or ends.

    Raises
    ------
    FolderError
        If the folder holds something and ``resume`` is not set, or holds another experiment,
        another scale, or something else altogether.
    ConfigError
        If a method, model or scale is unknown, or an option is given that it does not take.
    """
    given: dict[str, object] = {"time_limit": time_limit, "clock": clock}
    _check_options(experiment, given | {"data_dir": data_dir, "orders": orders})
    _check_keys("method", only_methods, experiment.method_labels)
    _check_keys("model", only_models, experiment.model_labels)
    if only_methods is None and experiment.default_methods:
        only_methods = experiment.default_methods
    if only_models is None and experiment.default_models:
        only_models = experiment.default_models
    if orders is not None:
        checked_choice("orders", orders, ORDERS)
    parts = experiment.parts_at(scale, experiment.num_seeds if num_seeds is None else num_seeds)
    further: dict[str, Setting] = {}
    if time_limit is not None:
        further["time_limit"] = float(time_limit)
    if clock is not None and checked_choice("clock", clock, tuple(CLOCKS)) != "wall":
        further["clock"] = clock
        experiment = replace(experiment, time_label=f"{clock} time (seconds)")
    parts = [replace(part, settings={**part.options, **further}) for part in parts]
    wanted = [
        part
        for part in parts
        if (only_methods is None or part.method in only_methods)
        and (only_models is None or part.model in only_models)
        and (orders is None or part.options["orders"] == orders)
    ]
    if not wanted:
        raise ConfigError("no part has one of these methods and one of these models: choose others")
    present = _open_folder(folder, experiment, scale, resume)
    check_replaceable(folder / experiment.name)  # now, not after the first part
    missing = [part for part in wanted if present.get(part.name) != part]
    failures: list[Outcome] = []
    machine = describe_machine() + (f", {threads} threads for each part" if threads > 1 else "")

    def keep(outcome: Outcome) -> None:
        if outcome.error:
            failures.append(outcome)
            trace = outcome.trace.encode(errors="replace")
            replace_file(error_path(folder, outcome.part), trace)
            return
        write_part(
            folder,
            FinishedPart(
                experiment.name, outcome.part, outcome.rows, outcome.seconds, jobs, machine
            ),
        )

    run_part = experiment.run_part
    if experiment.has_surroundings:
        surroundings = Surroundings(folder / SURROUNDINGS, data_dir)
        surroundings.folder.mkdir(exist_ok=True)
        run_part = partial(run_part, surroundings=surroundings)
    run_parts(run_part, missing, jobs, keep, watch, threads)
    finished, remarks = _usable(folder, parts)
    remarks += [f"the part {each.part.name} failed: {each.error}" for each in failures]
    files, plot_remark = _write_files(experiment, folder, finished, command, remarks)
    return Reproduction(
        files=tuple(files),
        finished=tuple(finished),
        failures=tuple(failures),
        num_run=len(missing),
        num_kept=len(wanted) - len(missing),
        remarks=(*remarks, *plot_remark),
    )


def _write_files(
    experiment: Experiment,
    folder: Path,
    finished: list[FinishedPart],
    command: str,
    remarks: list[str],
) -> tuple[list[Path], list[str]]:
    """Write table, picture and summary; also say if there can be no picture."""
    table, summary = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "md"))
    write_table(table, finished)
    text = summary_text(
        with_levels(experiment, finished), finished, command=command, remarks=remarks
    )
    replace_file(summary, text.encode())
    try:
        plots = _write_plots(experiment, folder, finished)
    except NoPlotError as error:
        return [table, summary], [str(error)]
    return [table, *plots, summary], []


def _write_plots(experiment: Experiment, folder: Path, finished: list[FinishedPart]) -> list[Path]:
    """Draw the main metric, then the others, then what the experiment draws itself."""
    plots = [folder / f"{experiment.name}.png"]
    write_plot(plots[0], with_levels(experiment, finished), finished)
    for metric, label in experiment.further_metrics.items():
        plots.append(folder / f"{experiment.name}-{metric}.png")
        other = replace(experiment, metric=metric, metric_label=label)
        write_plot(plots[-1], with_levels(other, finished), finished)
    if experiment.draw is not None:
        parts = [each.part for each in finished]
        plots += experiment.draw(folder, folder / SURROUNDINGS, parts)
    return plots


def _open_folder(folder: Path, experiment: Experiment, scale: str, resume: bool) -> dict[str, Part]:
    """Make the folder ready; return the finished parts in it by name."""
    try:
        content = list(folder.iterdir()) if folder.exists() else []
        if content and not resume:
            raise FolderError(
                f"{folder} is not empty: continue what is there with --resume, or choose another "
                "folder"
            )
        if content and not (folder / FOLDER).is_dir():
            raise FolderError(
                f"{folder} is not empty and holds no results (there is no {FOLDER}/ in it): "
                "choose another folder"
            )
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot use {folder} for results: {error.strerror}") from None
    present = {}
    for each in read_parts(folder):
        if (each.experiment, each.part.scale) != (experiment.name, scale):
            raise FolderError(
                f"{folder} holds results of {each.experiment} at scale {each.part.scale}, not of "
                f"{experiment.name} at scale {scale}: choose another folder"
            )
        present[each.part.name] = each.part
    return present


def _usable(folder: Path, parts: list[Part]) -> tuple[list[FinishedPart], list[str]]:
    """All parts of the folder but those of earlier settings; also say which were left out."""
    current = {part.name: part for part in parts}
    usable, remarks = [], []
    for each in read_parts(folder):
        if current.get(each.part.name, each.part) == each.part:
            usable.append(each)
        else:
            remarks.append(
                f"the part {each.part.name} is left out: its settings have changed since it ran"
            )
    return usable, remarks


def _check_keys(kind: str, wanted: Collection[str] | None, known: Collection[str]) -> None:
    if wanted is not None and not wanted:
        raise ConfigError(f"no {kind} is named: choose among {', '.join(known)}")
    for key in wanted or ():
        if key not in known:
            raise ConfigError(
                f"no {kind} {key!r} in this experiment{did_you_mean(key, known)} "
                f"({kind}s: {', '.join(known)})"
            )


def _check_options(experiment: Experiment, given: dict[str, object]) -> None:
    reasons = {
        "time_limit": "its parts have times of their own",
        "clock": "its parts have clocks of their own",
        "data_dir": "it reads no data",
        "orders": "what orders its methods have is part of their names",
    }
    for name, value in given.items():
        if value is not None and name not in experiment.options:
            raise ConfigError(
                f"{experiment.name} does not take ",
                Named(name),
                f": {reasons[name]}; leave it out",
            )
