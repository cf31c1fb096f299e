"""How much memory and time a question may take: decided once, at the front door, and passed down.

Limits are a user's: bytes and seconds for the whole answer. A :class:`Budget` turns them into a
number of bytes and a moment on the clock, so that every stage can see what is left for it. Stages
whose cost is known refuse before they begin; others look at the clock as they go, and stop: by
themselves, or because :mod:`deltaai.watch` makes them.

Nothing is measured here but the clock, and what the system has free where no limit was given.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from deltaai.arguments import checked_bytes, checked_object, checked_seconds
from deltaai.errors import NotAffordableError, TimeLimitError, format_bytes
from deltaai.watch import Watch, watching

_FALLBACK_LIMIT = 4 * 1024**3
_CGROUPS = Path("/sys/fs/cgroup")
_LEAST_SECONDS = 1e-3  # no limit of time is zero


@dataclass(frozen=True)
class Budget:
    """Bytes and seconds that may be used.

    Parameters
    ----------
    memory : bytes.
    time_limit : seconds in all, if there is a limit.
    deadline : when they are over, as ``time.perf_counter`` counts.

    Examples
    --------
    >>> budget = Budget.of(2**30, 60)
    >>> budget.is_over, 59 < budget.seconds_left <= 60, Budget.of(2**30, None).seconds_left
    (False, True, inf)
    >>> 29 < budget.part(0.5).seconds_left <= 30
    True
    """

    memory: int
    time_limit: float | int | None = None
    deadline: float = field(default=math.inf)

    @classmethod
    def of(
        cls, memory_limit: int | str | None = None, time_limit: float | int | None = None
    ) -> Budget:
        """Start the clock; without a limit of memory it is half of what is free."""
        asked, seconds = checked_bytes(memory_limit), checked_seconds(time_limit)
        memory = default_memory_limit() if asked is None else asked
        if seconds is None:
            return cls(memory)
        return cls(memory, seconds, time.perf_counter() + seconds)

    @classmethod
    def given(cls, budget: Budget | None) -> Budget:
        """What a caller gave; where nothing was given, half of the memory and all time."""
        if budget is None:
            return cls.of()
        return checked_object("budget", budget, cls, "make one with Budget.of, or leave it out")

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0; infinite if there is none."""
        return max(self.deadline - time.perf_counter(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() >= self.deadline

    def part(self, share: float) -> Budget:
        """A share of the time that is left, with all of the memory."""
        if self.deadline == math.inf:
            return self
        return replace(self, deadline=time.perf_counter() + share * self.seconds_left)

    def leaving(self, share: float, most_seconds: float | int) -> float | None:
        """Seconds to use now, so that a share of them but not more than some seconds are left.

        None if there is no limit.

        >>> round(Budget.of(1, 10).leaving(0.2, 30)), round(Budget.of(1, 600).leaving(0.2, 30))
        (8, 570)
        """
        if self.time_limit is None:
            return None
        left = self.seconds_left
        return max(left - min(share * left, most_seconds), _LEAST_SECONDS)

    def with_memory(self, memory: int) -> Budget:
        """The same time with another number of bytes."""
        return replace(self, memory=max(memory, 1))

    def check(self, what: str) -> None:
        """Raise an error if the time is over."""
        if self.time_limit is not None and self.is_over:
            raise TimeLimitError(what, self.time_limit)

    def watching(
        self, what: str, progress: Callable[[float], None] | None = None
    ) -> Callable[[float], None] | None:
        """A report of progress that also stops work that is not done when the time is over."""
        if self.deadline == math.inf:
            return progress

        def report(done: float) -> None:
            if done < 1:
                self.check(what)
            if progress is not None:
                progress(done)

        return report

    def watched(self, what: str, work_seconds: float = 0.0) -> AbstractContextManager[None]:
        """Put a watch on a stage: all that runs inside stops when the time is over.

        Parameters
        ----------
        what : the stage, as an error calls it: *the time limit ended before ... was ready*.
        work_seconds : seconds of work that it has in any case, as the processor counts.

        Examples
        --------
        >>> from deltaai.watch import look
        >>> with Budget(10**6, 3, 0.0).watched("the plan"):
        ...     look()
        Traceback (most recent call last):
        ...
        deltaai.errors.TimeLimitError: the time limit of 3 s ended before the plan was ready; ...
        """
        work_until = time.process_time() + work_seconds if work_seconds else -math.inf
        limit = math.inf if self.time_limit is None else self.time_limit
        return watching(Watch(what, self.memory, limit, self.deadline, work_until))

    def refuse(self, what: str, num_bytes: int | float, remedy: str) -> None:
        """Raise an error if something needs more memory than there may be."""
        if num_bytes > self.memory:
            raise NotAffordableError(
                f"{what} need about {format_bytes(num_bytes)} and the memory limit is "
                f"{format_bytes(self.memory)}: {remedy}"
            )


def default_memory_limit() -> int:
    """Half of the memory that is free now, as far as the system tells."""
    known = [number for number in (_meminfo_available(), _cgroup_available()) if number is not None]
    return min(known) // 2 if known else _FALLBACK_LIMIT


def _meminfo_available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup_available(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Free memory of the narrowest control group that holds this process, if one limits it.

    A container sees its own group as the root; a service or a job of a cluster is some levels
    below it, and every level may have a limit. Version 1 keeps memory in a tree of its own.
    """
    found = [_free_of(root, "memory.max", "memory.current", "inactive_file")]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        inside = path.strip("/").split("/") if path.strip("/") else []
        for depth in range(len(inside) + 1):
            below = Path(*inside[:depth])
            if kinds == "":
                found.append(
                    _free_of(root / below, "memory.max", "memory.current", "inactive_file")
                )
            elif "memory" in kinds.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                found.append(_free_of(root / "memory" / below, *names))
    return min((number for number in found if number is not None), default=None)


def _free_of(folder: Path, limit: str, used: str, cached: str) -> int | None:
    """Bytes of a group that are free, or taken by files that need not stay in memory."""
    try:
        most = int((folder / limit).read_text())
        taken = int((folder / used).read_text())
    except (OSError, ValueError):  # "max" is no number
        return None
    try:
        table = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        taken -= int(table.get(cached, 0))
    except (OSError, ValueError):
        pass
    return max(most - max(taken, 0), 0)
