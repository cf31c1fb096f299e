"""Progress of work in parts, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from deltaai.cli import show
from deltaai.errors import format_seconds
from deltaai.experiments import Standing


@contextmanager
def parts_bar() -> Iterator[Callable[[Standing], None]]:
    """A bar on the error stream; in a pipe or a log, one plain line for each part that ended."""
    show.err.print(end="")  # imports what printing needs: Ctrl-C during an import ends all at once
    if not show.err.is_terminal:
        yield _tell_ended
        return
    columns = (
        TextColumn("parts"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[running]}"),
    )
    with Progress(*columns, console=show.err, transient=True) as bars:
        task = bars.add_task("parts", total=None, left="", running="")

        def watch(standing: Standing) -> None:
            left = standing.seconds_left
            bars.update(
                task,
                completed=standing.num_done,
                total=standing.num_parts,
                left="" if left is None else f"about {format_seconds(left)} left",
                running=escape(", ".join(part.name for part in standing.running)),
            )
            if standing.ended is not None and standing.ended.error:
                _tell_ended(standing)

        yield watch


def _tell_ended(standing: Standing) -> None:
    ended = standing.ended
    if ended is not None:
        result = f"failed: {ended.error}" if ended.error else f"{ended.seconds:.1f} s"
        line = f"[{standing.num_done}/{standing.num_parts}] {ended.part.name} {result}"
        show.err.print(line, markup=False, soft_wrap=True)
