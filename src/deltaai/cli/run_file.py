"""The file that the state of a run is kept in while a command makes something that takes time.

It stands beside the output unless the user names another, is not touched without being mentioned,
survives an interrupt and a disk that is full, and goes when the output is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltaai.cli import show
from deltaai.cli.outputs import Output
from deltaai.errors import ConfigError, OutputError
from deltaai.training import settle_earlier

_SUFFIX = ".checkpoint"


@dataclass(frozen=True)
class RunFile:
    """Where the state of a run is kept.

    Parameters
    ----------
    output : what names it on the command line, and the file.
    """

    output: Output

    @classmethod
    def of(cls, output: Path, checkpoint: Path | None) -> RunFile:
        """The file that was named, or the one beside the output."""
        option, path = "--checkpoint", checkpoint
        if path is None:
            option = "the checkpoint of --output"
            path = output.with_name(output.name + _SUFFIX) if output.name else output
        return cls(Output(option, path, "runs", (_SUFFIX,)))

    @property
    def path(self) -> Path:
        """The file."""
        assert self.output.path is not None
        return self.output.path

    def settle(self, *, resume: bool, restart: bool) -> None:
        """Refuse to lose an earlier run, and to resume where there is none."""
        settle_earlier(self.path, resume=resume, restart=restart)
        if resume and not self.path.exists():
            raise ConfigError(f"nothing to resume: there is no {self.path}")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Say where the run is if it ends before its output is written; else remove its file."""
        try:
            yield
        except KeyboardInterrupt:
            if self.path.exists():
                show.note(f"stopped; continue with the same command and --resume ({self.path})")
            raise
        except OutputError as error:
            if self.path.exists():
                raise OutputError(
                    f"{error}; the run is kept in {self.path}: make room, and go on with the same "
                    "command and --resume"
                ) from None
            raise
        self.path.unlink(missing_ok=True)
