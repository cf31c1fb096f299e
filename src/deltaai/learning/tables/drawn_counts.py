"""Expected counts where no table fits: missing cells are drawn from q, and weighted.

Every row is filled in a few times by a q that follows the network
(:mod:`deltaai.learning.tables.row_filler`), and its fillings are weighted by p, island by island
(:mod:`deltaai.learning.likelihood.fillings`). Families that a row shows are counted as they are.

Counts have noise then. Of many rows most of it averages out within a step; the rest does over
steps, as in stochastic approximation of EM (Delyon, Lavielle and Moulines, 1999):

    S_t = S_{t-1} + γ_t (counts_t - S_{t-1}),    γ_t = 1 first, and then (t - t_0)^(-0.7)

The first steps go as far as exact ones would, and where little is left to gain the tables are those
of an average of draws. The likelihood is an estimate, with an error and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.learning.likelihood.fillings import Fillings, RowEstimate
from deltaai.learning.likelihood.row_trust import judge_rows
from deltaai.learning.tables.cases import Cases, Counted
from deltaai.learning.tables.row_filler import RowFiller
from deltaai.models import FactorGraph
from deltaai.trust import Verdict

_FILLINGS = 8  # of a row, in a step
_FULL_STEPS, _POWER = 10, 0.7
_JUDGED_COLUMNS, _MOST_FILLINGS = 2**15, 64  # fillings of all rows, and of a row, for a judgement
_COLUMNS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class EstimatedLikelihood:
    """Log-likelihood of rows, estimated.

    Parameters
    ----------
    mean : of a row, in nats.
    error : its standard error.
    verdict : how far it can be trusted.
    """

    mean: float
    error: float
    verdict: Verdict


class DrawnCounts:
    """Expected counts of cases by fillings of q.

    Parameters
    ----------
    cases : the rows.
    filler : q.
    """

    def __init__(self, cases: Cases, filler: RowFiller) -> None:
        self.cases, self.filler = cases, filler
        incomplete = cases.rows[(cases.rows < 0).any(1)]
        self._incomplete = torch.from_numpy(incomplete.astype(np.int64))
        self.begin()

    def begin(self) -> None:
        """Forget the steps so far: tables that have nothing to do with these come next."""
        self._average: list[Float64[Tensor, "..."]] = []
        self._step = 0

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, besides the tables."""
        return {"average": self._average, "step": self._step, "filler": self.filler.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._average, self._step = list(state["average"]), int(state["step"])
        self.filler.restore(state["filler"])

    def counted(self, model: FactorGraph) -> Counted:
        """Log-likelihood of all cases, and counts averaged over the steps so far."""
        self._step += 1
        self.filler.follow(model, self._incomplete)
        counts = [
            torch.zeros(g.num_factors, *g.sizes, dtype=torch.float64, device="cpu")
            for g in model.groups
        ]
        total, added = 0.0, 0.0
        for found, weights in self._filled(_FILLINGS):
            estimate = found.estimate()
            total += float((estimate.log_partition * weights).sum())
            added += float((estimate.correction * weights).sum())
            for group, sums in zip(model.groups, counts, strict=True):
                sums.add_(found.counts(group, weights))
        self.filler.unevenness = added / self.cases.num_rows
        return Counted(total, tuple(self._averaged(counts)))

    def _averaged(self, counts: list[Float64[Tensor, "..."]]) -> list[Float64[Tensor, "..."]]:
        late = self._step - _FULL_STEPS
        share = 1.0 if late <= 1 else late**-_POWER
        if not self._average:
            self._average = [found.clone() for found in counts]
        for mean, found in zip(self._average, counts, strict=True):
            mean.lerp_(found, share)
        return [mean.clone() for mean in self._average]

    def _filled(self, each: int) -> Iterator[tuple[Fillings, Float64[Tensor, "row"]]]:
        """All cases, filled in, with their weights; complete ones once."""
        for rows, weights in self.cases.blocks():
            is_complete = (rows >= 0).all(1)
            for chosen, number in ((is_complete, 1), (~is_complete, each)):
                some, theirs = rows[chosen], weights[chosen]
                at_once = max(_COLUMNS_AT_ONCE // number, 1)
                for first in range(0, len(some), at_once):
                    part = slice(first, first + at_once)
                    yield self.filler.fill(some[part], number), theirs[part]

    def likelihood(self, model: FactorGraph, *, is_judged: bool) -> EstimatedLikelihood:
        """Estimate the likelihood of the cases with more fillings than a step has.

        Parameters
        ----------
        is_judged : whether it is worth some second opinions.
        """
        self.filler.settle(model, self._incomplete)
        each = min(max(_JUDGED_COLUMNS // max(len(self.cases.rows), 1), _FILLINGS), _MOST_FILLINGS)
        parts: list[RowEstimate] = []
        rows: list[Int[Tensor, "row var"]] = []
        weights: list[Float64[Tensor, "row"]] = []
        for found, theirs in self._filled(each):
            parts.append(found.estimate())
            weights.append(theirs)
            unknown = found.labels < found.labels.shape[1]
            rows.append(found.states[:, 0].masked_fill(unknown, -1))
        estimate, share = RowEstimate.joined(parts), torch.cat(weights)
        mean = float((estimate.log_partition * share).sum() / share.sum())
        judged = Verdict("unchecked")
        if is_judged and math.isfinite(mean):
            budget = self.filler.budget
            judged = judge_rows(model, torch.cat(rows), estimate, self.filler.generator, budget)
        return EstimatedLikelihood(mean, estimate.mean_error(share), judged)
