"""The gradient itself, by exact inference, wherever the tables fit.

Since ∂ log Z / ∂ log φ_k(s) = p(x_{S_k} = s), with Z(e) the sum over states that agree with
evidence e, and row n observing e_n,

    ∇ (1/N) Σ_n log p(e_n) = Σ_k < (1/N) Σ_n p(x_{S_k} = · | e_n) - p(x_{S_k} = ·), ∇ log φ_k >

Expected counts of both terms come from :class:`~deltaai.exact.RowInference`; complete rows need no
inference, so that one model expectation serves any number of them. The surrogate's value is the
mean negative log-likelihood, so that a line search may use it. What was inferred is kept until p
moves.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.exact import ExpectedCounts, RowInference
from deltaai.graphs import Elimination
from deltaai.learning.likelihood.expectations import ExpectedTables, WeightedStates
from deltaai.learning.likelihood.gradients import Gradient, GradientSettings
from deltaai.learning.likelihood.rows import MISSING, LearningRows
from deltaai.models import FactorGraph, Target, on_cpu


class ExactGradient(Gradient):
    """Data expectations minus model expectations of every factor's table.

    Raises
    ------
    MemoryLimitError
        If the tables do not fit; raised before any is allocated.
    """

    has_value: ClassVar[bool] = True

    def __init__(self, model: FactorGraph, rows: LearningRows, settings: GradientSettings) -> None:
        super().__init__(model, rows, settings)
        self._target = Target(model)
        self._of_model = ExactCounts(self._target)
        given = rows.states[~rows.is_complete]
        always = (given >= 0).all(0).nonzero().squeeze(1).tolist() if len(given) else []
        self._of_rows = ExactCounts(self._target, tuple(always)) if len(given) else None

    def surrogate(self, chosen: Int[Tensor, "chosen"]) -> Float[Tensor, ""]:
        """Mean negative log-likelihood of the chosen rows, with its gradient."""
        model, states, count = self.model, self.rows.states[chosen], len(chosen)
        is_complete = self.rows.is_complete[chosen]
        nothing = torch.full((1, model.num_variables), MISSING, dtype=torch.long, device="cpu")
        found = self._of_model.of(nothing)
        total = ExpectedTables(found.by_group).log_score(model)
        constant = float(found.log_partition) - float(total.detach())
        complete, incomplete = states[is_complete], states[~is_complete]
        if len(complete):
            share = len(complete) / count
            total = total - WeightedStates.even(complete, share).log_score(model)
        if len(incomplete):
            assert self._of_rows is not None
            given = self._of_rows.of(incomplete.cpu())
            positive = ExpectedTables(given.by_group, 1 / count).log_score(model)
            constant += float(positive.detach()) - float(given.log_partition.sum()) / count
            total = total - positive
        return total + constant


class ExactCounts:
    """Expected counts of a target that moves: one order of elimination, new tables every time.

    Parameters
    ----------
    target : p.
    always_observed : variables that every row observes, which then cost nothing.
    """

    def __init__(self, target: Target, always_observed: tuple[int, ...] = ()) -> None:
        self._target, self._always = target, always_observed
        self._elimination: Elimination | None = None
        self._kept: tuple[tuple[int, ...], Tensor, ExpectedCounts] | None = None

    def of(self, rows: Int[Tensor, "row var"]) -> ExpectedCounts:
        """Counts of the scopes' states in some rows, as p is now."""
        moment = self._target.moment
        if self._kept is not None and self._kept[0] == moment and torch.equal(self._kept[1], rows):
            return self._kept[2]
        found = self.engine().expected_counts(rows)
        self._kept = moment, rows, found
        return found

    def engine(self) -> RowInference:
        """Inference for p as it is now."""
        engine = RowInference(
            on_cpu(self._target.now(torch.float64)), self._always, elimination=self._elimination
        )
        self._elimination = engine.elimination
        return engine
