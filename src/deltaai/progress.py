"""Progress of long work: bars in a terminal or a notebook, nothing at all elsewhere.

Work reports in two ways: the fraction of it that is done, and where training stands after an
update. :func:`reporting` turns what a user chose (``progress=``, ``watch=``) into what the work is
given to report to. A bar appears only when the work has gone on for a moment, and is gone when it
ends; quick answers show nothing. Python and the command line share this.
"""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from deltaai.arguments import checked_flag, checked_function

if TYPE_CHECKING:
    from rich.console import Console

Fraction = Callable[[float], None]  # takes the fraction of the work that is done

_MOMENT = 0.5  # seconds before a bar appears
_REDRAWN_AFTER = 0.2  # seconds, in a notebook


@runtime_checkable
class Standing(Protocol):
    """Where training stands; :class:`deltaai.training.loop.TrainingProgress` is one."""

    step: int
    steps: int
    loss: float
    estimate: Any


Watch = Callable[[Any], None]  # takes where training stands, after every update


@dataclass(frozen=True)
class Reports:
    """What long work is given to report to; nothing where nobody listens.

    Parameters
    ----------
    fraction : takes the share of the work that is done.
    training : takes the standing after every update.
    """

    fraction: Fraction | None = None
    training: Watch | None = None


@runtime_checkable
class _Display(Protocol):
    """Where bars are drawn."""

    def draw(self, name: str, done: float | int, total: float | int, text: str) -> None: ...
    def close(self) -> None: ...


@contextmanager
def reporting(
    progress: bool | Fraction | None = None,
    watch: Watch | None = None,
    label: str = "working",
    console: Console | None = None,
) -> Iterator[Reports]:
    """Give work something to report to, while the body runs.

    Parameters
    ----------
    progress : ``True`` shows bars, ``False`` none, and ``None`` does if someone looks: the error
        stream is a terminal, or this is a notebook. A function is called with the fraction done.
    watch : called with the standing after every update of training, beside a bar or without.
    label : what the work is called.
    console : where to draw, if not on the error stream.
    """
    checked_function("watch", watch)
    if progress is not None and not callable(progress):
        progress = checked_flag("progress", progress)
    else:
        checked_function("progress", progress)
    if callable(progress):
        yield Reports(progress, watch)
    elif progress is False or (progress is None and not is_watched()):
        yield Reports(None, watch)
    else:
        with _bars(label, watch, console) as reports:
            yield reports


def is_watched() -> bool:
    """Whether someone sees a bar: on a terminal, or in a notebook."""
    return is_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def is_notebook() -> bool:
    """Whether this runs in a notebook, which shows more than text."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def fractions_of(progress: Fraction, watch: Watch | None) -> Watch:
    """Let the fraction of training that is done be told to a function, beside what watches it."""

    def training(standing: Standing) -> None:
        progress(standing.step / max(standing.steps, 1))
        if watch is not None:
            watch(standing)

    return training


@contextmanager
def _bars(label: str, watch: Watch | None, console: Console | None) -> Iterator[Reports]:
    start, last = time.monotonic(), ""
    display: _Display | None = None

    def draw(name: str, done: float | int, total: float | int, text: str = "") -> None:
        nonlocal display
        if display is None and time.monotonic() - start >= _MOMENT:
            display = _NotebookBars() if is_notebook() else _TerminalBars(console)
        if display is not None:
            display.draw(name, done, total, text)

    def fraction(done: float) -> None:
        draw(label, min(done, 1.0), 1.0)

    def training(standing: Standing) -> None:
        nonlocal last
        if standing.estimate is not None:
            ess, elbo = standing.estimate.ess_fraction, standing.estimate.elbo
            last = f"ESS {ess:.1%}  ELBO {elbo:.3f}"
        text = f"{standing.step}/{standing.steps}  loss {standing.loss:.4g}  {last}"
        draw("training", standing.step, standing.steps, text)
        if watch is not None:
            watch(standing)

    try:
        yield Reports(fraction, training)
    finally:
        if display is not None:
            display.close()


class _TerminalBars:
    """Bars of rich, which go when the work is done."""

    def __init__(self, console: Console | None) -> None:
        # rich is for those who look; importing it takes a moment
        from rich.console import Console as NewConsole  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[standing]}"),
            TimeRemainingColumn(),
        )
        # A console of its own, so that two threads may show bars at once.
        shown = console or NewConsole(stderr=True, highlight=False)
        self._progress = Progress(*columns, console=shown, transient=True)
        self._tasks: dict[str, Any] = {}
        self._progress.start()

    def draw(self, name: str, done: float | int, total: float | int, text: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=None, standing="")
        self._progress.update(self._tasks[name], completed=done, total=total, standing=text)

    def close(self) -> None:
        self._progress.stop()


class _NotebookBars:
    """Bars of the notebook itself, in one output that is drawn again and at last emptied."""

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display")
        self._html = display.HTML
        self._rows: dict[str, str] = {}
        self._drawn = time.monotonic()
        self._handle = display.display(self._html(""), display_id=True)

    def draw(self, name: str, done: float | int, total: float | int, text: str) -> None:
        self._rows[name] = (
            f"<div>{html.escape(name)} <progress value='{done}' max='{total}'></progress> "
            f"<code>{html.escape(text)}</code></div>"
        )
        if time.monotonic() - self._drawn >= _REDRAWN_AFTER:
            self._drawn = time.monotonic()
            self._handle.update(self._html("".join(self._rows.values())))

    def close(self) -> None:
        self._handle.update(self._html(""))
