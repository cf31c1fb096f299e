"""What an experiment is: a list of parts, and a function that runs one of them.

A part is one method on one model with one seed. It shares nothing with other parts, so parts run
in any order, in any process, and one that is done need not be done again. Running it yields rows:
at this step, after so many seconds, this metric had this value.

The clock is the part's own: ``seconds`` is what the method took so far, without what measuring
it took. This file runs nothing; see :mod:`deltaai.experiments.harness.runner`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from deltaai.errors import ConfigError

Setting = str | int | float | bool
Settings = tuple[tuple[str, Setting], ...]

SCALES = ("smoke", "small", "paper")
# What learners may be timed by: processor time counts what other work on the machine does not take.
CLOCKS: Mapping[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}
_KEY = re.compile(r"[A-Za-z0-9_.+]+(-[A-Za-z0-9_.+]+)*")


def is_key(name: object) -> bool:
    """Whether something can be the key of a model, a method or an experiment."""
    return isinstance(name, str) and _KEY.fullmatch(name) is not None


@dataclass(frozen=True)
class Part:
    """One method on one model with one seed, and all that decides its result.

    Parameters
    ----------
    model : key of the model within the experiment.
    method : key of the method.
    seed : of all randomness in the part.
    scale : ``"smoke"``, ``"small"`` or ``"paper"``.
    settings : names and values that the result depends on; a mapping is taken too. When one of
        them changes, finished results of the part no longer count.

    Examples
    --------
    >>> part = Part("ladder", "delta", 0, "smoke", {"steps": 10})
    >>> part.options["steps"], part.name
    (10, 'ladder--delta--0')
    """

    model: str
    method: str
    seed: int
    scale: str
    settings: Settings | Mapping[str, Setting] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", tuple(sorted(dict(self.settings).items())))
        for kind, key in (("model", self.model), ("method", self.method)):
            if not is_key(key):  # it becomes the name of a file
                raise ConfigError(
                    f"the {kind} key {key!r} of a part is no name: use letters, digits, "
                    "single '-', '_', '.' and '+'"
                )
        if self.scale not in SCALES:
            raise ConfigError(f"the scale is {self.scale!r}: choose one of {', '.join(SCALES)}")

    @property
    def options(self) -> Mapping[str, Setting]:
        """The settings by name."""
        return MappingProxyType(dict(self.settings))

    @property
    def name(self) -> str:
        """Model, method and seed, as in the name of the part's file."""
        return f"{self.model}--{self.method}--{self.seed}"


@dataclass(frozen=True)
class Row:
    """The value of one metric at one moment.

    Parameters
    ----------
    step : updates, sweeps or whatever the method counts.
    seconds : what the method took until then; does not fall from row to row.
    metric : name of what was measured.
    value : the measurement; may be infinite or NaN.
    """

    step: int
    seconds: float | int
    metric: str
    value: float | int


@dataclass(frozen=True)
class Surroundings:
    """What a part may use and its result does not depend on.

    Parameters
    ----------
    folder : where it keeps what it needs to go on after a kill, and what pictures are drawn from.
    data_dir : where data sets are, if the user said so.
    """

    folder: Path
    data_dir: Path | None = None


@dataclass(frozen=True)
class Experiment:
    """A figure: its parts at each scale, how to run one, and how to show the results.

    Parameters
    ----------
    name : what the command line calls it.
    title : heading of the picture and the summary.
    description : one line for lists.
    metric : name of the metric that is plotted and summarised; rows with other names go to the
        CSV only, but ``ground_truth_is_exact`` (1 or 0) is told in the summary, and where
        ``is_global_phase`` becomes 1 in the summary and the picture.
    metric_label : text at the vertical axis.
    parts : from the scale and the number of seeds to the parts.
    run_part : runs a part; a function of a module, so that other processes can find it. It takes
        the part, and its surroundings too if ``has_surroundings``.
    method_labels : method key to label, in the order of plotting.
    model_labels : model key to label, in the order of panels.
    thresholds : values whose time to reach is tabulated.
    is_log_value, is_log_time : whether the axes are logarithmic.
    time_label : text at the horizontal axis.
    is_larger_better : whether larger values are better; usually smaller ones are.
    references : for a model key, values that are known from elsewhere, by their label: level lines
        in the picture, and lines of the table.
    notes : text for the summary, in Markdown.
    num_seeds : seeds of each method, unless somebody says how many.
    default_methods : what is run if no method is named; all, if there are none here.
    default_models : likewise for models.
    options : further options that it takes: ``"time_limit"``, which replaces the setting of that
        name in every part, ``"clock"``, which sets it, ``"data_dir"``, and ``"orders"``, which
        keeps the parts whose setting of that name is what was asked for.
    has_surroundings : whether ``run_part`` takes them.
    further_metrics : metrics that have a picture over time of their own, with their labels.
    end_metrics : metrics whose last values the summary lists, with the heads of their columns.
    facts : metrics that are the same for all methods and that the summary tells, with their names.
    levels : for a metric that has a picture, facts that are level lines in it, with their labels.
    level_methods : methods that take next to no time: drawn as level lines at their final value,
        where there are others.
    draw : draws what else parts have left in their surroundings: from the folder of the results
        and that of the surroundings, and the finished parts, to the files it wrote.
    """

    name: str
    title: str
    description: str
    metric: str
    metric_label: str
    parts: Callable[[str, int], list[Part]]
    run_part: Callable[..., Iterator[Row]]
    method_labels: Mapping[str, str]
    model_labels: Mapping[str, str]
    thresholds: tuple[float | int, ...]
    is_log_value: bool = True
    is_log_time: bool = True
    time_label: str = "wall-clock time (seconds)"
    is_larger_better: bool = False
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: str = ""
    num_seeds: int = 3
    default_methods: tuple[str, ...] = ()
    default_models: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    has_surroundings: bool = False
    further_metrics: Mapping[str, str] = field(default_factory=dict)
    end_metrics: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    level_methods: tuple[str, ...] = ()
    draw: Callable[[Path, Path, Sequence[Part]], list[Path]] | None = None

    def parts_at(self, scale: str, num_seeds: int) -> list[Part]:
        """The parts at a scale, after checking that they are labelled and differ."""
        if scale not in SCALES:
            raise ConfigError(f"the scale is {scale!r}: choose one of {', '.join(SCALES)}")
        if num_seeds < 1:
            raise ConfigError(f"the number of seeds is {num_seeds}: it must be at least 1")
        parts = self.parts(scale, num_seeds)
        for part in parts:
            if part.method not in self.method_labels or part.model not in self.model_labels:
                raise ConfigError(f"{self.name}: the part {part.name} has no label")
        if len({part.name for part in parts}) < len(parts):
            raise ConfigError(f"{self.name}: two parts have the same model, method and seed")
        return parts
