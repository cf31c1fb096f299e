"""Progress on the command line: bars on the error stream, unless nothing is wanted."""

from __future__ import annotations

from contextlib import AbstractContextManager

from deltaai.cli import show
from deltaai.progress import Reports, reporting


def bars(label: str = "working") -> AbstractContextManager[Reports]:
    """Show a bar for each kind of work that reports, while the body runs."""
    return reporting(show.has_progress(), label=label, console=show.err)
