"""The first lines of the command ``deltaai`` that run.

Nothing is imported before :func:`main` stands ready for Ctrl-C; see :mod:`deltaai.cli.running`.
"""

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and leave with its exit code."""
    try:
        from deltaai.cli.running import run  # noqa: PLC0415
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(_INTERRUPTED)
    sys.exit(run())
