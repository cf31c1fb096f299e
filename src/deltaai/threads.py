"""Threads: how many torch may use for a piece of work, and turns at memory that threads share.

Training and sampling are long chains of small operations. Spread over threads each gains little,
and on a machine that others use too each waits for the slowest thread: a hundredfold loss was
measured where a gain of half was possible. So such work runs on one thread unless asked otherwise.

Passes that are compiled and let go of Python's lock share their work out themselves
(:func:`over_threads`), among as many threads as torch may use or, with torch on one thread, among
those that are left to them: torch's own threads wait for work at full speed, and would take the
cores that passes need.

Engines that keep memory between questions let one thread after the other use it (:class:`Turn`).
Everything else that threads share is never changed once it is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from types import TracebackType

import torch

_limiting = threading.Lock()
_of_passes: ContextVar[int | None] = ContextVar("threads of compiled passes", default=None)


@contextmanager
def limited_threads(count: int, *, passes: int | None = None) -> Iterator[None]:
    """Let torch use at most this many threads inside the block; then as before.

    This holds for the thread that enters the block and for no other. Leave it in the same one: a
    generator must not be suspended inside.

    Parameters
    ----------
    count : threads of torch.
    passes : threads of compiled passes, if these are to be others.
    """
    token = _of_passes.set(passes)
    with _limiting:
        before = torch.get_num_threads()
        is_changed = count < before
        if is_changed:
            torch.set_num_threads(count)
            _set_for_others(before)
    try:
        yield
    finally:
        _of_passes.reset(token)
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


def over_threads(
    work: Callable[[int, int], None], count: int, *, most: int, multiple: int = 1
) -> None:
    """Call ``work(start, stop)`` for parts of a range, in as many threads as passes may use.

    Parameters
    ----------
    work : must let go of Python's lock, and write to places of its own alone.
    count : end of the range, which starts at zero.
    most : threads that the work is worth; it is done here if that is below two.
    multiple : parts begin at multiples of this.
    """
    threads = min(_allowed(), count, most)
    if threads < 2:
        work(0, count)
        return
    places = [count * number // threads // multiple * multiple for number in range(threads)]
    bounds = [*places, count]
    parts = list(pairwise(bounds))
    others = [_pool().submit(work, start, stop) for start, stop in parts[1:]]
    work(*parts[0])
    for other in others:
        other.result()


def side_by_side(*pieces: Callable[[], None]) -> None:
    """Do pieces of work none of which changes what another reads: at once, if passes may.

    All but the last are done in threads of their own, on one thread each, and with gradients.
    """
    if _allowed() < 2:
        for piece in pieces:
            piece()
        return
    others = [_pool().submit(_alone, piece) for piece in pieces[:-1]]
    try:
        pieces[-1]()
    finally:
        for other in others:
            other.result()


def _alone(piece: Callable[[], None]) -> None:
    with torch.enable_grad(), limited_threads(1, passes=1):
        piece()


def _allowed() -> int:
    """Threads of compiled passes."""
    return _of_passes.get() or torch.get_num_threads()


@cache
def _pool() -> ThreadPoolExecutor:
    # One more than cores: a piece of work that waits for its parts has a thread, too.
    return ThreadPoolExecutor((os.cpu_count() or 1) + 1, thread_name_prefix="deltaai")


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
