"""What becomes of the file of an earlier run: it is continued or given up, as the user says.

Nothing that took time is lost in silence, so a file that is there and not mentioned is an error.
Python and the command line have the same rule. What is in such a file is the loop's.
"""

from __future__ import annotations

from pathlib import Path

from deltaai.errors import ConfigError, OutputError, Setting
from deltaai.io import is_there


def settle_earlier(checkpoint: Path | None, *, resume: bool, restart: bool) -> None:
    """Refuse what would lose an earlier run, and what could mean nothing.

    Resuming where there is no file yet begins anew: the same script may be started again and
    again, whenever it was killed.
    """
    if resume and restart:
        raise ConfigError("choose one of ", Setting("resume"), " and ", Setting("restart"))
    if checkpoint is None:
        if resume or restart:
            raise ConfigError(
                Setting("resume" if resume else "restart"),
                " is about the file of a run, and none is named: give ",
                Setting("checkpoint"),
            )
        return
    if not resume and not restart and is_there(checkpoint):
        raise ConfigError(
            f"{checkpoint} holds an earlier run: go on with it with ",
            Setting("resume", True),
            ", or give it up with ",
            Setting("restart", True),
        )


def give_up(checkpoint: Path) -> None:
    """Remove an earlier run: a later one must not take it for its own."""
    try:
        if checkpoint.is_file():
            checkpoint.unlink()
    except OSError as error:
        raise OutputError(f"cannot remove {checkpoint}: {error.strerror or error}") from None
