"""The picture of an experiment: one panel a model, the metric of every method over time.

Lines are means over seeds and bands one standard deviation to either side, as in the paper. Seeds
measure at different times, so each curve is read as a step function on a common grid of times. A
method keeps its colour from figure to figure; a hollow dot for each seed says where the global
phase of training begins. Without matplotlib there is no picture, and
:class:`NoPlotError` says how to get it. This file computes nothing but means and deviations.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from deltaai.errors import DeltaAIError
from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.parts import Experiment
from deltaai.experiments.harness.results import (
    Curve,
    GlobalPhase,
    curves_of,
    global_phases_of,
)
from deltaai.io import replace_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 150
_MOST_COLUMNS = 5
_PANEL_INCHES = (3.4, 2.9)
_ENTRY_INCHES, _LETTER_INCHES, _LINE_INCHES = 0.45, 0.062, 0.18  # of the legend
_NUM_TIMES = 200
_NUM_COLOURS = 96

# Colours that people with any colour vision tell apart (Okabe and Ito), by method without
# punctuation; methods not listed take the rest in the order of their labels.
_COLOURS = {
    "delta": "#0072B2",
    "deltaunpolished": "#0072B2",
    "deltapaper": "#444444",
    "tb": "#D55E00",
    "tblocal": "#A52A2A",
    "db": "#009E73",
    "fldb": "#CC79A7",
    "gibbs": "#E69F00",
    "gwg": "#56B4E9",
    "tempering": "#E7298A",
    "exact": "#66A61E",
    "deltapartial": "#56B4E9",
    "deltamany": "#E7298A",
    "meanfield": "#999999",
    "sleep": "#66A61E",
    "importance": "#A52A2A",
    "vae": "#444444",
    "subtb": "#8C6D1F",
    "flsubtb": "#7F3C8D",
    "pseudo": "#444444",
    "independent": "#8C6D1F",
}
_OTHER_COLOURS = ("#444444", "#A52A2A", "#66A61E", "#999999", "#1B9E9E", "#E7298A")
_DASHED = ("deltaunpolished",)  # the colour is that of the method it is a form of
_PHASE = "a global phase"  # key of the dots in the legend; not one that a method can have


class NoPlotError(DeltaAIError):
    """There can be no picture: matplotlib is not installed."""


def write_plot(path: Path, experiment: Experiment, finished: Sequence[FinishedPart]) -> None:
    """Draw an experiment as a PNG file.

    Raises
    ------
    NoPlotError
        If matplotlib is not installed.
    """
    try:
        # Not pyplot: it keeps figures in a global list and looks for a screen.
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
        from PIL import Image  # noqa: PLC0415  (comes with matplotlib)
    except ImportError:
        raise NoPlotError(
            "no picture, for matplotlib is not installed: pip install 'deltaai[plots]', then run "
            "the same command with --resume"
        ) from None
    found, phases = curves_of(finished, experiment.metric), global_phases_of(finished)
    models = [model for model in experiment.model_labels if model in found]
    shown = {method for model in models for method in found[model]}
    num_columns = min(max(len(models), 1), _MOST_COLUMNS)
    num_rows = -(-max(len(models), 1) // num_columns)
    width = max(_PANEL_INCHES[0] * num_columns, 4.5)  # room for the legend
    labels = {
        method: label for method, label in experiment.method_labels.items() if method in shown
    }
    for model in models:
        labels |= {label: label for label in experiment.references.get(model, {})}
    if any(run.has_begun for each in phases.values() for runs in each.values() for run in runs):
        labels[_PHASE] = "global phase begins (each seed)"
    longest = max(map(len, labels.values()), default=0)
    num_entries = max(int(width / (_ENTRY_INCHES + _LETTER_INCHES * longest)), 1)  # side by side
    num_lines = -(-len(labels) // num_entries)
    size = (width, _PANEL_INCHES[1] * num_rows + 0.5 + _LINE_INCHES * num_lines)
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(experiment.title, fontsize=11)
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    colours = method_colours(experiment.method_labels)
    drawn: dict[str, Artist] = {}
    for panel, model in zip(panels, models, strict=False):
        drawn |= _draw_panel(panel, experiment, model, found[model], colours, phases.get(model, {}))
    for panel in panels[len(models) :]:
        panel.set_visible(False)
    for position in range(0, len(models), num_columns):
        panels[position].set_ylabel(experiment.metric_label)
    if drawn:
        figure.legend(
            [drawn[key] for key in labels if key in drawn],
            [label for key, label in labels.items() if key in drawn],
            loc="outside lower center",
            ncols=num_entries,
            frameon=False,
            fontsize=9,
        )
    raw, small = io.BytesIO(), io.BytesIO()
    figure.savefig(raw, format="png", metadata={"Software": None})
    # Smoothed bands over bands make thousands of colours; fewer make a third of the file.
    # By coverage, not by population: thin lines of different methods must not become one colour.
    image = Image.open(raw).convert("RGB")
    image = image.quantize(_NUM_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    replace_file(path, small.getvalue())


def method_colours(labels: Mapping[str, str]) -> dict[str, str]:
    """A colour for every method; those not listed take what the listed ones leave.

    >>> method_colours({"fl-db": "FL-DB", "mine": "Mine"})
    {'fl-db': '#CC79A7', 'mine': '#444444'}
    """
    listed = {method: _COLOURS.get(_plain(method)) for method in labels}
    free = [colour for colour in _OTHER_COLOURS if colour not in listed.values()]
    others = itertools.cycle(free or _OTHER_COLOURS)
    return {method: colour or next(others) for method, colour in listed.items()}


def _plain(method: str) -> str:
    return "".join(filter(str.isalnum, method.lower()))


def mean_and_deviation(
    curves: Sequence[Curve], seconds: Float64[np.ndarray, "time"]
) -> tuple[Float64[np.ndarray, "time"], Float64[np.ndarray, "time"]]:
    """Mean and standard deviation over seeds at given times; NaN where a value is not finite."""
    values = np.stack([curve.at(seconds) for curve in curves])
    values[~np.isfinite(values)] = np.nan
    mean = values.mean(0)
    spread = values.std(0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
    return mean, spread


def _draw_panel(
    panel: Axes,
    experiment: Experiment,
    model: str,
    methods: Mapping[str, Sequence[Curve]],
    colours: Mapping[str, str],
    phases: Mapping[str, Sequence[GlobalPhase]],
) -> dict[str, Artist]:
    """Draw the lines of a model; return one of each method, and a dot, for the legend."""
    level, curved = _levels_and_curves(experiment, methods)
    everything = [curve for curves in curved.values() for curve in curves]
    earliest = _smallest_positive([curve.seconds for curve in everything])
    smallest = _smallest_positive([curve.values for curve in everything])
    lines = {}
    for method in (method for method in experiment.method_labels if method in curved):
        seconds = _times(methods[method], earliest, experiment.is_log_time)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # infinities, which are not drawn
            lines[method] = (seconds, *mean_and_deviation(methods[method], seconds))
    # A logarithmic axis needs something to show; unbiased estimates may all be negative.
    is_log_value = experiment.is_log_value and any(
        (mean > 0).any() for _, mean, _ in lines.values()
    )
    drawn: dict[str, Artist] = {}
    for method, (seconds, mean, spread) in lines.items():
        low, line = mean - spread, mean
        if is_log_value:
            low, line = np.maximum(low, smallest / 2), np.where(mean > 0, mean, np.nan)
        colour = colours[method]
        if len(methods[method]) > 1:
            panel.fill_between(seconds, low, line + spread, color=colour, alpha=0.15, linewidth=0)
        style = "--" if _plain(method) in _DASHED else "-"
        (drawn[method],) = panel.plot(seconds, line, style, color=colour, linewidth=1.6)
        starts = [run.start for run in phases.get(method, ()) if run.has_begun]
        if starts:
            heights = np.interp(starts, seconds, line)
            dots: dict[str, Any] = {"markersize": 4.5, "markerfacecolor": "white", "zorder": 3}
            panel.plot(starts, heights, "o", color=colour, **dots)
            (drawn[_PHASE],) = panel.plot([], [], "o", color="#444444", **dots)
    for style, (label, value) in zip(
        itertools.cycle((":", "-.")), experiment.references.get(model, {}).items(), strict=False
    ):
        drawn[label] = panel.axhline(value, color="#666666", linestyle=style, linewidth=1)
    for method, curves in level.items():
        final = float(np.mean([curve.final for curve in curves]))
        drawn[method] = panel.axhline(final, color=colours[method], linestyle="--", linewidth=1.2)
    if experiment.is_log_time:
        panel.set_xscale("log")
        _plain_times(panel)
    if is_log_value:
        panel.set_yscale("log")
    else:
        _look_past_the_start(panel, lines, experiment.references.get(model, {}).values())
    panel.set_title(experiment.model_labels[model], fontsize=10)
    panel.set_xlabel(experiment.time_label)
    panel.grid(alpha=0.25, linewidth=0.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)
    return drawn


def _levels_and_curves(
    experiment: Experiment, methods: Mapping[str, Sequence[Curve]]
) -> tuple[dict[str, Sequence[Curve]], dict[str, Sequence[Curve]]]:
    """Methods that are level lines, and those that are curves: all, if there would be none."""
    level = {key: curves for key, curves in methods.items() if key in experiment.level_methods}
    curved = {key: curves for key, curves in methods.items() if key not in level}
    return (level, curved) if curved else ({}, dict(methods))


def _plain_times(panel: Axes) -> None:
    """Label a logarithmic axis of times with numbers that have room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    first, last = panel.get_xlim()
    steps = (1.0, 2.0, 5.0) if last < 1000 * first else (1.0,)
    panel.xaxis.set_major_locator(LogLocator(subs=steps))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _look_past_the_start(
    panel: Axes, lines: Mapping[str, tuple[np.ndarray, ...]], references: Iterable[float]
) -> None:
    """Show the range of values after the first measurement: what nobody has learned is far off."""
    later = [(mean - spread, mean + spread) for _, mean, spread in lines.values() if len(mean) > 2]
    values = np.concatenate([part[1:] for pair in later for part in pair]) if later else np.empty(0)
    values = values[np.isfinite(values)]
    if len(values) and values.min() < values.max():
        margin = 0.05 * float(values.max() - values.min())
        low, high = float(values.min()) - margin, float(values.max()) + margin
        panel.set_ylim(min([low, *references]), max([high, *references]))


def _times(curves: Sequence[Curve], earliest: float, is_log: bool) -> Float64[np.ndarray, "time"]:
    """Common times: from when all seeds have been measured until the last has ended."""
    begin = max(float(curve.seconds[0]) for curve in curves)
    end = max(float(curve.seconds[-1]) for curve in curves)
    if is_log:  # time zero is shown at the earliest other time of the panel
        begin = max(begin, earliest)
        return np.geomspace(begin, max(end, begin), _NUM_TIMES)
    return np.linspace(begin, end, _NUM_TIMES)


def _smallest_positive(arrays: Sequence[Float64[np.ndarray, "..."]]) -> float:
    together = np.concatenate(arrays)
    positive = together[np.isfinite(together) & (together > 0)]
    return float(positive.min()) if len(positive) else 1.0
