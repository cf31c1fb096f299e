"""Running what is fuzzed under watch: how it may end, how long it may take, what it may hold."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deltaai.errors import DeltaAIError

_Result = TypeVar("_Result")

SECONDS = 10
TESTS = Path(__file__).parents[1]


class TooSlowError(BaseException):
    """Something took longer than a person would wait; no handler of errors may swallow it."""


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS) -> Iterator[None]:
    """Interrupt what hangs; needs the main thread."""

    def stop(*_: object) -> None:
        raise TooSlowError(f"still at it after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def repeat(
    strategy: st.SearchStrategy[_Result], max_examples: int, attempt: Callable[[_Result], None]
) -> None:
    """Call with so many examples, the same ones every time.

    A failure is shown as it was found: an example is a valid one with a few changes, and making it
    smaller may take minutes.
    """
    chosen = settings(
        derandomize=True,
        deadline=None,
        max_examples=max_examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @chosen
    @given(strategy)
    def one(example: _Result) -> None:
        attempt(example)

    one()


def refused_or(call: Callable[..., _Result], *arguments: Any) -> _Result | None:
    """Call something with spoilt input: its result, or nothing if it refused with one line."""
    try:
        with time_limit():
            return call(*arguments)
    except DeltaAIError as error:
        check_refusal(error)
        return None


def check_refusal(error: DeltaAIError) -> None:
    """Check that a refusal is one line of moderate length, and no report of wasted memory."""
    message = str(error)
    assert message.strip()
    assert len(message.splitlines()) == 1, f"a refusal of several lines: {message!r}"
    assert len(message) < 5000, f"a refusal of {len(message)} characters"
    assert "allocate" not in message, f"memory was asked for before the refusal: {message}"


def in_bare_process(
    module: str, call: str, *, extra_bytes: int = 2**29, seconds: int = 300
) -> None:
    """Run a campaign in a process of its own: no type checks, little memory, an end in sight.

    Parameters
    ----------
    module : of this folder.
    call : expression with its names.
    extra_bytes : memory that may be taken beyond what importing takes.
    """
    program = (
        f"from fuzz import watching, {module}\n"
        f"watching.limit_memory({extra_bytes})\n"
        f"{module}.{call}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]


def limit_memory(extra_bytes: int) -> None:
    """Let this process take so much more memory than it has, and no more."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    held = next(line for line in status.read_text().splitlines() if line.startswith("VmData"))
    most = int(held.split()[1]) * 1024 + extra_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def describe(error: BaseException) -> str:
    """The last lines of a traceback, for the message of an assertion."""
    return "".join(traceback.format_exception(error))[-3000:]
