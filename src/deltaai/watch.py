"""The watch on work whose length nobody knows before: it looks up now and then, and stops in time.

Reading a file, looking for an elimination order, laying out networks: deep down they are plain
loops, which take a moment or an hour, and a gigabyte perhaps. Whoever has limits for a stage puts a
watch on it (:meth:`deltaai.budget.Budget.watched`), and every such loop calls :func:`look` as it
goes. Without a watch that costs next to nothing.

The watch belongs to the stage and not to the process: it is set for what runs inside a ``with``,
in this thread, and the one of before is back afterwards. Never put one around a ``yield``. What is
worth keeping when a part of the time is over stands inside :func:`at_most`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import no_type_check

from deltaai.errors import NotAffordableError, TimeLimitError, format_bytes


@dataclass(frozen=True)
class Watch:
    """What a stage may take.

    Parameters
    ----------
    what : the stage, as an error calls it.
    memory : bytes that what it builds may take.
    time_limit : seconds, as the user gave them; infinite without a limit.
    deadline : when they are over, as ``time.perf_counter`` counts.
    work_until : until then, as ``time.process_time`` counts, it goes on in any case.
    """

    what: str
    memory: int
    time_limit: float | int
    deadline: float
    work_until: float = -math.inf

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0; infinite if there is none."""
        return max(self.deadline - time.perf_counter(), 0.0)


_SMALL = 2**24  # bytes: less than this is small beside the libraries, and never refused
_NOBODY = Watch("", 2**62, math.inf, math.inf)
_WATCH: ContextVar[Watch] = ContextVar("deltaai_watch", default=_NOBODY)


@no_type_check  # called millions of times, also where tests check the types of all arguments
def look(num_bytes: int | float = 0) -> None:
    """Stop the stage under way if its time is over, or if what it builds becomes too large.

    Parameters
    ----------
    num_bytes : what is built takes so much, or will.
    """
    watch = _WATCH.get()
    if watch is _NOBODY:
        return
    if time.perf_counter() >= watch.deadline and time.process_time() >= watch.work_until:
        raise TimeLimitError(watch.what, watch.time_limit)
    if num_bytes > max(watch.memory, _SMALL):
        raise NotAffordableError(
            f"{watch.what} needs {format_bytes(num_bytes)} or more and the memory limit is "
            f"{format_bytes(watch.memory)}: raise the limit"
        )


def seconds_left() -> float:
    """Seconds that the stage under way still has; infinite without a limit."""
    return _WATCH.get().seconds_left


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Put a watch on what runs inside."""
    before = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(before)


@contextmanager
def at_most(share: float) -> Iterator[None]:
    """Leave what is inside when a share of the time that is left is over, without an error.

    What was found until then is kept; where all of the time is over the next look says so.

    >>> found = []
    >>> with watching(Watch("it", 1, 60, time.perf_counter() + 0.02)), at_most(0.5):
    ...     while True:
    ...         found.append(1)
    ...         look()
    >>> len(found) > 0
    True
    """
    watch = _WATCH.get()
    if watch.deadline == math.inf:
        yield
        return
    ending = time.perf_counter() + share * watch.seconds_left
    try:
        with watching(replace(watch, deadline=ending)):
            yield
    except TimeLimitError:
        pass
