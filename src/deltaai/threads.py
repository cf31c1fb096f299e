"""Threads: how many torch may use for a piece of work, and turns at memory that threads share.

Training and sampling are long chains of small operations. Spread over threads each gains little,
and on a machine that others use too each waits for the slowest thread: a hundredfold loss was
measured where a gain of half was possible. So such work runs on one thread unless asked otherwise.

Passes that are compiled and let go of Python's lock share their work out themselves
(:func:`over_threads`).

Engines that keep memory between questions let one thread after the other use it (:class:`Turn`).
Everything else that threads share is never changed once it is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import TracebackType

import torch

_limiting = threading.Lock()


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let torch use at most this many threads inside the block; then as before.

    This holds for the thread that enters the block and for no other. Leave it in the same one: a
    generator must not be suspended inside.
    """
    with _limiting:
        before = torch.get_num_threads()
        is_changed = count < before
        if is_changed:
            torch.set_num_threads(count)
            _set_for_others(before)
    try:
        yield
    finally:
        if is_changed:
            torch.set_num_threads(before)


def _set_for_others(count: int) -> None:
    """Set the number of threads for threads that do not use torch yet.

    Each thread has a number of its own, but begins with the last one that any thread has set, and
    would keep it. So the last one to set it must not be the one that is limited.
    """
    other = threading.Thread(target=torch.set_num_threads, args=(count,))
    other.start()
    other.join()


def over_threads(work: Callable[[int, int], None], count: int, *, most: int) -> None:
    """Call ``work(start, stop)`` for parts of a range, in as many threads as torch may use.

    Parameters
    ----------
    work : must let go of Python's lock, and write to places of its own alone.
    count : end of the range, which starts at zero.
    most : threads that the work is worth; it is done here if that is below two.
    """
    threads = min(torch.get_num_threads(), count, most)
    if threads < 2:
        work(0, count)
        return
    bounds = [count * number // threads for number in range(threads + 1)]
    parts = list(pairwise(bounds))
    others = [_pool().submit(work, start, stop) for start, stop in parts[1:]]
    work(*parts[0])
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="deltaai")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has no threads but its own


class Turn:
    """Lets one thread at a time into a ``with`` block; the thread inside may enter again.

    A copy of what owns a turn has memory of its own, so it gets a new turn. One in which nobody
    stands: that also holds for what is sent to another process.

    >>> turn = Turn()
    >>> with turn, turn:
    ...     print("inside")
    inside
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: dict[int, object]) -> Turn:
        """A new one, for memory that is copied too."""
        return Turn()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        """A new one on the other side."""
        return Turn, ()
