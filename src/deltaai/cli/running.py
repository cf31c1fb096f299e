"""How the command ``deltaai`` begins and ends: streams, interrupts, errors and exit codes.

Everything else, the commands and the library behind them, is imported inside :func:`run`, so that
Ctrl-C at any moment ends with one word. Exit codes: 0 for an answer, 1 for an experiment of which a
part failed or for a fault of the program, 2 for input that cannot be used (files, options,
evidence), 3 for a question that is not within the limits of memory and time, 4 for output that
could not be written, 130 after Ctrl-C (a training run or an experiment can then be resumed).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

PROGRAM = "deltaai"  # however it was started
EXIT_ANSWERED = 0
EXIT_FAULT = 1
EXIT_BAD_INPUT = 2
EXIT_NOT_AFFORDABLE = 3
EXIT_NOT_WRITTEN = 4
EXIT_INTERRUPTED = 130

# What goes wrong with the output stream; files are named by errors of our own.
_OF_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT})
_FEWEST_COLUMNS = 20  # a screen that says it is narrower does not know


def run() -> int:
    """Run the command line; every expected error is one line and an exit code."""
    with _interruptible():
        _prepare_streams()
        return _run()


def _run() -> int:
    """Run a command and write all that it says; return the exit code."""
    try:
        code = _run_command()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        _forget_output()
        return EXIT_ANSWERED
    except OSError as error:
        _forget_output()
        return _fail(*_verdict(error))


def _run_command() -> int:
    """Run a command; return its exit code, or that of its error."""
    try:
        from deltaai.cli.app import app  # noqa: PLC0415

        code = app(standalone_mode=False, prog_name=PROGRAM)
        if code == EXIT_INTERRUPTED:  # what the parser makes of an interrupt
            return _fail("interrupted", EXIT_INTERRUPTED)
        return code if isinstance(code, int) else EXIT_ANSWERED
    except SystemExit as stop:  # how a command ends, and what the parser makes of some errors
        for cause in _causes(stop):
            if isinstance(cause, KeyboardInterrupt):
                return _fail(*_verdict(cause))
            if isinstance(cause, BrokenPipeError):
                raise cause from None
        return stop.code if isinstance(stop.code, int) else EXIT_ANSWERED
    except OSError as error:
        if error.errno in _OF_OUTPUT:
            raise
        return _fail(*_verdict(error))
    except (KeyboardInterrupt, Exception) as error:
        return _fail(*_verdict(error))


def _verdict(error: BaseException) -> tuple[str, int]:
    """What to say about an error, and the exit code."""
    from deltaai import errors  # noqa: PLC0415
    from deltaai.cli import console, usage, wording  # noqa: PLC0415

    if usage.is_usage_error(error):
        return "" if usage.is_call_for_help(error) else usage.usage_sentence(error), EXIT_BAD_INPUT
    match error:
        case KeyboardInterrupt():
            return "interrupted", EXIT_INTERRUPTED
        case errors.DeltaAIError():
            kinds = {
                errors.NotAffordableError: EXIT_NOT_AFFORDABLE,
                errors.OutputError: EXIT_NOT_WRITTEN,
            }
            codes = [code for kind, code in kinds.items() if isinstance(error, kind)]
            return error.worded(wording.as_option), next(iter(codes), EXIT_BAD_INPUT)
        case OSError() if error.errno in _OF_OUTPUT:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            return f"cannot write the output: {reason}", EXIT_NOT_WRITTEN
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # as torch says it
        return "there is not enough memory for this: ask for less at a time", EXIT_NOT_AFFORDABLE
    if console.is_verbose():
        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return (
        f"this should not have happened ({what}); please report it, with what --verbose says",
        EXIT_FAULT,
    )


def _fail(message: str, code: int) -> int:
    """Say what is wrong, if anybody can be told; return the exit code."""
    from deltaai.errors import one_line  # noqa: PLC0415

    text = one_line(message, longest=3000)
    if not text:  # it has been said already
        return code
    with contextlib.suppress(OSError, ValueError):
        print(text if code == EXIT_INTERRUPTED else f"error: {text}", file=sys.stderr, flush=True)
    return code


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What led to an error, from the last to the first."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _prepare_streams() -> None:
    """Make output that never fails for its characters, on a screen that has a width."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):  # a terminal may know fewer characters than we
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) < _FEWEST_COLUMNS:
        del os.environ["COLUMNS"]


def _forget_output() -> None:
    """Drop what is still to be written, so that nothing is attempted again at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once while something is being imported.

    An interrupted import leaves modules in pieces, and some turn the interrupt into errors of
    their own. At any other moment it is the usual exception, so that work can be kept.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        inner = frame
        while inner is not None:
            if inner.f_code.co_filename == "<frozen importlib._bootstrap>":
                with contextlib.suppress(OSError):
                    os.write(2, b"interrupted\n")
                os._exit(EXIT_INTERRUPTED)
            inner = inner.f_back
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if before is signal.SIG_IGN or not is_main:  # started so that Ctrl-C does not reach it
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
