"""Writing a file so that it is complete or absent, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import time
from pathlib import Path

from deltaai.errors import DeltaAIError

_LEFTOVER_SECONDS = 3600.0


def replace_file(path: str | Path, content: bytes) -> None:
    """Write beside the target, wait for the disk, and rename: nobody ever sees half a file.

    What is there and is not a file, such as a pipe or ``/dev/null``, is written to and stays.
    """
    try:
        if _is_device(Path(path)):
            Path(path).write_bytes(content)
            return
        target = Path(path).resolve()  # a link stays a link
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _settle_folder(target)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DeltaAIError(f"cannot write {path}: {reason}") from None


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _settle_folder(target: Path) -> None:
    """Make the rename last through a power cut, and clear up after writers that were killed."""
    with contextlib.suppress(OSError):  # neither is worth failing for
        for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
            if time.time() - leftover.stat().st_mtime > _LEFTOVER_SECONDS:
                leftover.unlink()
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
