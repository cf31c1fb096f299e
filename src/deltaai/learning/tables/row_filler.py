"""A q that fills in rows for a network whose tables change from step to step.

The network is copied once, and its tables are set in place: q reads them live, and its logits
contain them, so that most of a step is known to q before any update
(:class:`~deltaai.learning.likelihood.following.Follower`). q is trained given what the rows show,
and never without evidence. Zeros of tables are floored for q alone; weights know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Int
from torch import Tensor

from deltaai.budget import Budget
from deltaai.fitting import training_cost
from deltaai.learning.likelihood.fillings import Fillings
from deltaai.learning.likelihood.following import Follower
from deltaai.learning.likelihood.gradients import GradientSettings
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import ConditionalTableGroup, FactorGraph
from deltaai.randomness import generator_of

_SMOOTHING = 1e-4
_WARMUP, _UPDATES, _STEPS = 200, 4, 100  # of q, before and between steps, and how many of these
_SETTLING = 100  # updates of q before rows are judged, at most
_UPDATES_AT_ONCE, _TRIED_ROWS, _TRIED_FILLINGS = 10, 32, 8
_APPROACH_SHARE = 0.2  # of the time that is left
_NEAR_ENOUGH = 0.02  # nats a row that uneven weights make uncertain


class RowFiller:
    """Fills in rows by a q that follows the tables of a network.

    Parameters
    ----------
    model : the network as it is at the beginning.
    rows : incomplete rows, as q will meet them; -1 where a cell is missing.
    budget : memory and time that may be used.
    seed : of all that is drawn.

    Raises
    ------
    NotAffordableError
        If training q does not fit; raised before it takes memory.
    """

    def __init__(
        self, model: FactorGraph, rows: Int[Tensor, "row var"], budget: Budget, seed: int = 0
    ) -> None:
        self.budget, self.generator = budget, generator_of(seed)
        with budget.watched("a sampler for missing cells"):
            needed = training_cost(model, "any").peak_bytes
            budget.refuse("the updates of a sampler for missing cells", needed, "raise it")
            self._groups = [_copied(group) for group in model.groups]
            self._first = [group.tables.clone() for group in self._groups]
            self._follower = Follower(
                FactorGraph.from_groups(model.variables, self._groups),
                LearningRows(rows),
                GradientSettings(q_warmup=_WARMUP, q_updates=_UPDATES, steps=_STEPS, seed=seed),
                empty_share=0.0,
                smoothing=_SMOOTHING,
            )
        self._is_warm = False
        self.unevenness = float("inf")  # of the last fillings, in nats a row

    def state(self) -> dict[str, Any]:
        """Where q, its training and its draws stand."""
        return {
            "first": self._first,
            "follower": self._follower.state(),
            "generator": self.generator.get_state(),
            "is_warm": self._is_warm,
            "unevenness": self.unevenness,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._follower.restore(state["follower"])
        self.generator.set_state(state["generator"])
        self._is_warm, self.unevenness = bool(state["is_warm"]), float(state["unevenness"])

    def follow(self, model: FactorGraph, rows: Int[Tensor, "row var"]) -> None:
        """Take the tables of a network, and train q for them, unless it is near enough.

        Parameters
        ----------
        rows : incomplete ones, which q is trained given.
        """
        self._take(model)
        self._follower.show(rows)
        if not self._is_warm:
            self._approach(rows[:_TRIED_ROWS], _WARMUP)
            self._is_warm = True
        elif self.unevenness > _NEAR_ENOUGH:
            self._train(_UPDATES)

    def settle(self, model: FactorGraph, rows: Int[Tensor, "row var"]) -> None:
        """Take the tables of a network, and train q for them and given these rows, for longer."""
        self._take(model)
        self._follower.show(rows)
        self._approach(rows[:_TRIED_ROWS], _SETTLING)

    def _take(self, model: FactorGraph) -> None:
        for mine, given in zip(self._groups, model.groups, strict=True):
            mine.tables.copy_(given.log_tables())

    def _approach(self, some: Int[Tensor, "row var"], most_updates: int) -> None:
        """Train until weights are even, for so many updates or a share of the time."""
        within = self.budget.part(_APPROACH_SHARE)
        for _ in range(0, most_updates, _UPDATES_AT_ONCE):
            filled = self.fill(some, _TRIED_FILLINGS)
            is_near = float(filled.estimate().correction.mean()) <= _NEAR_ENOUGH
            if is_near or within.is_over:
                break
            self._train(_UPDATES_AT_ONCE)

    def _train(self, num_updates: int) -> None:
        for _ in range(num_updates):
            self.budget.check("a step of learning")
            self._follower.follow(1)

    def fill(self, rows: Int[Tensor, "row var"], each: int) -> Fillings:
        """Fill rows in several times, weighted by the network as it is."""
        with self.budget.watched("a step of learning"):
            return self._follower.fill(rows, each, self.generator)


def _copied(group: object) -> ConditionalTableGroup:
    assert isinstance(group, ConditionalTableGroup)
    return ConditionalTableGroup(group.ids, group.scopes, group.tables.clone())
