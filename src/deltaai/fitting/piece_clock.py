"""How many samples to draw next, so that a deadline is met however long one takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from deltaai.budget import Budget

_FIRST_PIECE = 512  # samples; they tell how long one takes
_MARGIN = 1.5  # pieces do not all take equally long


@dataclass
class PieceClock:
    """Sizes of pieces, from the time that those before took.

    Parameters
    ----------
    budget : says when to stop; the first piece is always drawn.
    most : samples of a piece at most.
    group_size : samples that belong together; with groups all pieces are as large as may be, so
        that each holds enough of them.

    Examples
    --------
    >>> clock = PieceClock(Budget(2**30), most=8192)
    >>> clock.size, clock.has_time
    (8192, True)
    """

    budget: Budget
    most: int
    group_size: int = 1
    seconds_each: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def size(self) -> int:
        """Samples of the next piece."""
        if self.budget.time_limit is None or self.group_size > 1:
            return self.most
        if self.seconds_each == 0:
            return min(self.most, _FIRST_PIECE)
        within = self.budget.seconds_left / (_MARGIN * self.seconds_each)
        return max(min(self.most, int(min(within, self.most))), 1)

    @property
    def has_time(self) -> bool:
        """Whether another piece can be drawn before the deadline."""
        if self.seconds_each == 0:
            return True
        return _MARGIN * self.seconds_each * self.size <= self.budget.seconds_left

    def tick(self, count: int) -> None:
        """A piece is done."""
        now = time.perf_counter()
        self.seconds_each = max((now - self.started) / count, 1e-9)
        self.started = now
