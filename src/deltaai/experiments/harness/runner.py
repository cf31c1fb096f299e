"""Running parts side by side, so that one that fails or dies takes no other with it.

With one job the parts run one after another in this process. With more, every part gets a fresh
process: that costs the seconds of an import, but parts then start equal (no warm caches, no
memory of earlier ones) and even a part that is killed for its memory is only one failure. Each
runs on one torch thread; otherwise the clocks of parts would depend on their neighbours. Compiled
passes have more if that is asked for.

This file does not know what a part does, nor where results are kept: it hands them to ``keep``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import torch

from deltaai.errors import ConfigError, DeltaAIError
from deltaai.experiments.harness.parts import Part, Row
from deltaai.threads import limited_threads

RunPart = Callable[[Part], Iterator[Row]]
_THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What came of a part: rows, or an error.

    Parameters
    ----------
    part : what was run.
    rows : what it yielded; empty if it failed.
    seconds : how long it took.
    error : what went wrong in one line; empty if nothing did.
    trace : where, for those who want to mend it.
    """

    part: Part
    rows: tuple[Row, ...]
    seconds: float
    error: str = ""
    trace: str = ""


@dataclass(frozen=True)
class Standing:
    """How far a run is: told whenever a part starts or ends.

    Parameters
    ----------
    num_done : parts that ended, failed ones included.
    num_parts : all parts of this run.
    running : parts at work now.
    seconds : since the run began.
    ended : the outcome that is new, if this is about one.
    """

    num_done: int
    num_parts: int
    running: tuple[Part, ...]
    seconds: float
    ended: Outcome | None = None

    @property
    def seconds_left(self) -> float | None:
        """A guess from the parts so far; ``None`` before the first has ended."""
        if self.num_done == 0:
            return None
        return self.seconds / self.num_done * (self.num_parts - self.num_done)


def run_parts(
    run_part: RunPart,
    parts: Sequence[Part],
    jobs: int,
    keep: Callable[[Outcome], None],
    watch: Callable[[Standing], None] | None = None,
    threads: int = 1,
    *,
    is_apart: bool = False,
) -> None:
    """Run parts, at most ``jobs`` at a time, and hand on each outcome as it comes.

    An interrupt ends the processes of the run at once; what was handed on stays.

    Parameters
    ----------
    run_part : a function of a module, for other processes must find it by its name.
    parts : in the order in which they start.
    jobs : processes; one runs here.
    keep : called with each outcome, in this process.
    watch : called whenever a part starts or ends.
    threads : of the compiled passes of each part.
    is_apart : whether one job, too, gets a fresh process for every part.
    """
    for name, number in (("jobs", jobs), ("threads", threads)):
        if number < 1:
            raise ConfigError(f"the number of {name} is {number}: it must be at least 1")
    begin, num_done = time.perf_counter(), 0

    def tell(running: Sequence[Part], ended: Outcome | None = None) -> None:
        if watch is not None:
            seconds = time.perf_counter() - begin
            watch(Standing(num_done, len(parts), tuple(running), seconds, ended))

    events = (
        _one_by_one(run_part, parts, threads)
        if jobs == 1 and not is_apart
        else _side_by_side(run_part, parts, jobs, threads)
    )
    with closing(events):  # whatever is raised here, the processes end first
        for running, ended in events:
            if ended is not None:
                keep(ended)
                num_done += 1
            tell(running, ended)


Event = tuple[list[Part], Outcome | None]  # parts at work, and the outcome of one that ended


def _one_by_one(
    run_part: RunPart, parts: Sequence[Part], threads: int
) -> Generator[Event, None, None]:
    for part in parts:
        yield [part], None
        with limited_threads(1, passes=threads):
            outcome = _outcome(run_part, part)
        yield [], outcome


def _side_by_side(
    run_part: RunPart, parts: Sequence[Part], jobs: int, threads: int
) -> Generator[Event, None, None]:
    waiting = list(parts)
    at_work: dict[Connection, tuple[Part, SpawnProcess, float]] = {}
    try:
        while waiting or at_work:
            while waiting and len(at_work) < jobs:
                part = waiting.pop(0)
                connection, process = _start(run_part, part, threads)
                at_work[connection] = (part, process, time.perf_counter())
                yield [part for part, _, _ in at_work.values()], None
            for ready in wait(list(at_work)):
                assert isinstance(ready, Connection)
                part, process, start = at_work.pop(ready)
                outcome = _receive(ready, part, process, start)
                yield [part for part, _, _ in at_work.values()], outcome
    finally:
        for connection, (_, process, _) in at_work.items():
            process.kill()
            process.join()
            connection.close()


def _start(run_part: RunPart, part: Part, threads: int) -> tuple[Connection, SpawnProcess]:
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(run_part, part, sending, threads), daemon=True)
    with _inherited_by_children():
        process.start()
    sending.close()  # so that the end of the process is the end of the pipe
    return receiving, process


def _receive(connection: Connection, part: Part, process: SpawnProcess, start: float) -> Outcome:
    try:
        outcome = connection.recv()
        assert isinstance(outcome, Outcome)
    except EOFError:
        process.join()
        error = f"its process died with exit code {process.exitcode}"
        if process.exitcode == -signal.SIGKILL:
            error += " (killed, perhaps for want of memory: try --jobs 1)"
        outcome = Outcome(part, (), time.perf_counter() - start, error, error)
    connection.close()
    process.join()
    return outcome


def _work(run_part: RunPart, part: Part, connection: Connection, threads: int) -> None:
    """What the process of a part does."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with limited_threads(1, passes=threads):
        outcome = _outcome(run_part, part)
    connection.send(outcome)
    connection.close()


def _outcome(run_part: RunPart, part: Part) -> Outcome:
    start = time.perf_counter()
    try:
        rows = tuple(run_part(part))
        if not rows:
            raise DeltaAIError("the part yielded no rows")
    except Exception as error:  # whatever it is, the other parts go on
        line = " ".join(str(error).split())
        named = line if isinstance(error, DeltaAIError) else f"{type(error).__name__}: {line}"
        return Outcome(part, (), time.perf_counter() - start, named, traceback.format_exc())
    return Outcome(part, rows, time.perf_counter() - start)


def _end_with_parent() -> None:
    """A run that was killed outright leaves no processes behind."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _inherited_by_children() -> Iterator[None]:
    """One thread, set before a child loads torch; and Ctrl-C left to this process alone."""
    before = {name: os.environ.get(name) for name in _THREAD_LIMITS}
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    os.environ.update(dict.fromkeys(_THREAD_LIMITS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if is_main:
            signal.signal(signal.SIGINT, handler)
