"""How many threads torch may use for a piece of work.

Training and sampling are long chains of small operations. Spread over threads each gains little,
and on a machine that others use too each waits for the slowest thread: a hundredfold loss was
measured where a gain of half was possible. So such work runs on one thread unless asked otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let torch use at most this many threads inside the block; then as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(count, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
