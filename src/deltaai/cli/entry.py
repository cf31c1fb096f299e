"""The first lines of the command ``deltaai`` that run.

Nothing is imported before :func:`main` stands ready for Ctrl-C but what Python has built in. From
then on an interrupt is one word: here while the rest is imported, in :mod:`deltaai.cli.running`
while a command runs. When all is said and done, while Python takes itself down, it ends the process
without one. What comes before the first line of this package, Python's own start, is out of reach.
"""

import _signal  # type: ignore[import-not-found]  # built in; signal itself takes milliseconds
import atexit
import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and leave with its exit code."""
    before = _signal.getsignal(_signal.SIGINT)
    is_ours = before is _signal.default_int_handler  # else whoever started us wants it otherwise
    try:
        if is_ours:
            _signal.signal(_signal.SIGINT, _end)
            atexit.register(_signal.signal, _signal.SIGINT, _signal.SIG_DFL)
    except ValueError:  # not in the main thread, which alone hears of signals
        is_ours = False
    try:
        from deltaai.cli.running import run  # noqa: PLC0415

        code = run()
    except KeyboardInterrupt:
        _end()
    finally:
        if is_ours:
            _signal.signal(_signal.SIGINT, before)
    sys.exit(code)


def _end(*_: object) -> None:
    """End the process with one word, at once: what is half imported cannot be cleared up."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(_INTERRUPTED)
