"""Schedules that are kept for the next question in the same order, a bounded number of them."""

from __future__ import annotations

from deltaai.conditionals import Proposal
from deltaai.graphs import ChordalGraph, Dag
from deltaai.sampling.levels import Schedule
from deltaai.threads import Turn

_MOST = 64  # many orders have one for every set of evidence


class KeptSchedules:
    """Schedules of one proposal, by order; those not used for the longest time go first.

    Parameters
    ----------
    proposal : q.
    masks, is_given : as in :meth:`~deltaai.sampling.levels.Schedule.build`.
    """

    def __init__(self, proposal: Proposal, *, masks: bool, is_given: bool) -> None:
        self.proposal, self.masks, self.is_given = proposal, masks, is_given
        self._kept: dict[tuple[int, ...], Schedule] = {}
        self._turn = Turn()

    def of(self, graph: ChordalGraph, order: tuple[int, ...]) -> Schedule:
        """The schedule of an order of a graph's variables."""
        with self._turn:
            found = self._kept.pop(order, None)
            if found is None:
                found = Schedule.build(
                    self.proposal, [Dag(graph, order)], masks=self.masks, is_given=self.is_given
                )
            self._kept[order] = found  # the last one used comes last
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return found
