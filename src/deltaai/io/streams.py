"""Bytes from a file, a pipe or a device, read under a watch: never waited for beyond its time.

A read from a pipe lasts until somebody writes, and opening a named pipe until somebody opens the
other end. So a pipe is opened without waiting, and before each read the system is asked to wait
until there is something, no longer than the time that is left (:mod:`deltaai.watch`). Files on a
disk are always ready, and an endless one is noticed between two reads.
"""

from __future__ import annotations

import io
import math
import os
import select
import stat
from pathlib import Path
from typing import Any

from deltaai.watch import look, seconds_left

# Ctrl-C and the clock are looked at this often while nothing comes.
_PATIENCE_SECONDS = 0.5


class WatchedStream(io.RawIOBase):
    """The bytes of an open descriptor.

    Parameters
    ----------
    descriptor : of a file that is open for reading.
    is_owner : whether to close it in the end.
    """

    def __init__(self, descriptor: int, *, is_owner: bool = True) -> None:
        self._descriptor, self._is_owner = descriptor, is_owner
        self._may_block = not stat.S_ISREG(os.fstat(descriptor).st_mode)

    @classmethod
    def opened(cls, path: Path) -> io.BufferedReader:
        """Open a file for reading, with a buffer."""
        # A pipe without a writer would keep us here; for files it makes no difference.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise IsADirectoryError(path)
            os.set_blocking(descriptor, True)
            return io.BufferedReader(cls(descriptor), 2**16)
        except BaseException:
            os.close(descriptor)
            raise

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def seekable(self) -> bool:
        """Whether it has places to go to: only a file on a disk has."""
        return not self._may_block

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        return os.lseek(self._descriptor, offset, whence)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - whatever holds bytes
        """Read what there is, after waiting for it as long as the watch allows."""
        look()
        if self._may_block:
            self._wait()
        if hasattr(os, "readv"):  # no second buffer, which would be cut to size and leave holes
            return os.readv(self._descriptor, [buffer])
        content = os.read(self._descriptor, memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(content)] = content
        return len(content)

    def _wait(self) -> None:
        if os.name != "posix":  # where only sockets can be waited for
            return
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not poll.poll(math.ceil(1000 * min(seconds_left(), _PATIENCE_SECONDS))):
            look()

    def close(self) -> None:
        """Give the descriptor back."""
        if not self.closed and self._is_owner:
            os.close(self._descriptor)
        super().close()
