"""Memory that nobody uses any more, handed back to the system.

What is freed stays with the process, for the next who asks: after training that is as much again as
training took, in pieces too small for what comes next, which then takes new memory. Between the
stages of an answer it is handed back, so that a limit of memory is for the largest stage and not
for the sum of them. Only the C library of most Linux systems can be asked to; others do as they do.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any


def hand_back(*, looks_for_circles: bool = False) -> None:
    """Give freed memory back, where the system has a way to ask for it.

    Parameters
    ----------
    looks_for_circles : whether to free first what only holds itself, as training leaves some. That
        goes through all objects there are, which takes a tenth of a second and more.
    """
    trim = _trim()
    if trim is not None:
        if looks_for_circles:
            gc.collect()
        trim(0)


@cache
def _trim() -> Any:  # noqa: ANN401
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another system, or another library
        return None
