"""Writing a file so that it is complete or absent, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from deltaai.arguments import checked_path
from deltaai.errors import OutputError

_LEFTOVER_SECONDS = 3600.0


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file in one piece; see :func:`replacing`."""
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: str | Path) -> Iterator[BufferedWriter]:
    """Write beside the target, wait for the disk, and rename: nobody ever sees half a file.

    If the body fails there is nothing new. What is there and is not a file, such as a pipe or
    ``/dev/null``, is written to and stays.
    """
    with _told(path, OSError, RuntimeError, ValueError):
        path = checked_path(path)
        is_device, target = _is_device(path), path.resolve()  # a link stays a link
        temporary = _beside(target)
        opened = path.open("wb") if is_device else temporary.open("xb")
    try:
        with _told(path, OSError):
            with opened as stream:
                yield stream
                stream.flush()
                if not is_device:
                    os.fsync(stream.fileno())
            if not is_device:
                if target.exists():
                    shutil.copymode(target, temporary)
                temporary.replace(target)
                _settle_folder(target)
    finally:
        if not is_device:
            temporary.unlink(missing_ok=True)


def check_replaceable(path: str | Path) -> None:
    """Raise the error that writing the file would end with, as far as it is known before.

    A file is made beside the target, as when it is written, and removed.
    """
    with _told(path, OSError, RuntimeError, ValueError):
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file in it")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "the file that is there may not be changed")
        if not _is_device(target):
            temporary = _beside(target)
            temporary.open("xb").close()
            temporary.unlink()


@contextmanager
def _told(path: str | Path, *kinds: type[Exception]) -> Iterator[None]:
    """Say in one line what is wrong with a file that is written."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has seen enough
        raise
    except kinds as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot write {path}: {reason}") from None


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


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
