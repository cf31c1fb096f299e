"""Progress on the error stream: bars on a terminal, nothing at all in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from deltaai.cli import show
from deltaai.exact.inference import Progress as ReportFraction
from deltaai.training.loop import Progress as Standing


@dataclass(frozen=True)
class Bars:
    """What long work is given to report to; nothing where nothing is shown.

    Parameters
    ----------
    fraction : takes the share of the work that is done.
    training : takes the standing after every update.
    """

    fraction: ReportFraction | None = None
    training: Callable[[Standing], None] | None = None


@contextmanager
def bars(label: str = "working") -> Iterator[Bars]:
    """Show a bar for each kind of work that reports, while the body runs."""
    if not show.has_progress():
        yield Bars()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[standing]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=show.err, transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def task(name: str) -> TaskID:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=None, standing="")
            return tasks[name]

        def fraction(done: float) -> None:
            shown.update(task(label), completed=min(done, 1.0), total=1.0)

        last = ""

        def training(standing: Standing) -> None:
            nonlocal last
            if standing.estimate is not None:
                ess, elbo = standing.estimate.ess_fraction, standing.estimate.elbo
                last = f"ESS {ess:.1%}  ELBO {elbo:.3f}"
            text = f"{standing.step}/{standing.steps}  loss {standing.loss:.4g}  {last}"
            shown.update(
                task("training"), completed=standing.step, total=standing.steps, standing=text
            )

        yield Bars(fraction, training)
