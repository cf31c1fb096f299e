"""How likely rows are that were not learned from, and how far that number can be trusted.

    (1/N) Σ_n log p(e_n),    log p(e_n) = log Z(e_n) - log Z

Both terms are exact where the tables are small. Elsewhere log Z is estimated by weighted samples,
those of the gradient's q if it has one, and of messages or annealed chains otherwise
(:func:`deltaai.trust.second_opinion`); when a run ends, the former are held against the latter.
Complete rows then need nothing else. log Z(e_n) of incomplete ones is estimated by fillings of q
(:mod:`deltaai.learning.likelihood.fillings`), some of which second opinions are held against when a
run ends; of gradients without a q such rows are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError
from deltaai.exact import RowInference
from deltaai.graphs import Elimination
from deltaai.learning.likelihood.fillings import RowEstimate
from deltaai.learning.likelihood.gradients import Gradient
from deltaai.learning.likelihood.pseudo_likelihood import log_pseudo_likelihood
from deltaai.learning.likelihood.row_trust import judge_rows
from deltaai.learning.likelihood.rows import MISSING, LearningRows
from deltaai.models import FactorGraph, Target, on_cpu
from deltaai.trust import (
    UNJUDGED,
    Verdict,
    WeightedSamples,
    judge_partition,
    judge_samples,
    second_opinion,
    verdict,
)
from deltaai.watch import seconds_left

# Entries of the tables of all rows up to which log Z is computed: some seconds.
MOST_ENTRIES = 2**26
_SAMPLES = 4000
_FILLINGS, _MOST_FILLINGS = 16, 64  # of an incomplete row, in the course of learning and at its end
_ROWS_AT_ONCE = 64
_LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class HeldOutLikelihood:
    """Mean log-likelihood of rows that were held out, in nats a row.

    Parameters
    ----------
    log_likelihood : of the rows, or of the complete ones among them if it is estimated and nobody
        fills in the others; NaN if there are none.
    stderr : what estimating log Z, also those of rows, adds to its error; 0 if that is exact.
    pseudo : mean log-pseudo-likelihood of all rows.
    verdict : ``"exact"``, or how far the estimate can be trusted, and why.
    num_rows : rows that the likelihood is of.
    """

    log_likelihood: float
    stderr: float
    pseudo: float
    verdict: Verdict
    num_rows: int

    @property
    def status(self) -> str:
        """How far it can be trusted, in a word."""
        return self.verdict.status

    def row(self) -> dict[str, Any]:
        """What a history keeps of it."""
        return {
            "held_out": self.log_likelihood,
            "held_out_stderr": self.stderr,
            "held_out_pseudo": self.pseudo,
            "held_out_status": self.status,
        }


class HeldOut:
    """Judges a model that learns, again and again, by rows that it does not learn from.

    Parameters
    ----------
    model : p, which somebody moves.
    rows : the rows.
    gradient : may draw samples of p.
    generator : of what is drawn here.
    """

    def __init__(
        self,
        model: FactorGraph,
        rows: LearningRows,
        gradient: Gradient,
        generator: torch.Generator,
    ) -> None:
        self.model, self.rows, self.gradient, self.generator = model, rows, gradient, generator
        self._target = Target(model)
        self._elimination: Elimination | None = None
        self.is_exact = self._is_affordable()

    @torch.no_grad()
    def measure(self, *, is_last: bool = False) -> HeldOutLikelihood:
        """Judge p as it is.

        Parameters
        ----------
        is_last : whether an estimate by q is worth a second opinion.
        """
        now = self._target.now(torch.float64)
        pseudo = float(log_pseudo_likelihood(now, self.rows.states).mean())
        if self.is_exact:
            log_likelihoods = self._exact(on_cpu(now))
            count, mean = len(log_likelihoods), float(log_likelihoods.mean())
            return HeldOutLikelihood(mean, 0.0, pseudo, Verdict("exact"), count)
        found, judged = self._estimated(on_cpu(now), is_last=is_last)
        scores, rows_judged = self._scores(now, is_last=is_last)
        count = len(scores.log_partition)
        if found is None or not count:
            return HeldOutLikelihood(math.nan, math.inf, pseudo, judged, count)
        if rows_judged is not None:
            judged = _both(judged, rows_judged)
        estimate, weights = found.estimate, torch.ones_like(scores.log_partition)
        mean = float(scores.log_partition.mean()) - estimate.log_partition
        error = math.hypot(estimate.stderr, scores.mean_error(weights))
        return HeldOutLikelihood(mean, error, pseudo, judged, count)

    def _scores(self, now: FactorGraph, *, is_last: bool) -> tuple[RowEstimate, Verdict | None]:
        """Log Z of each row: known of complete ones, and estimated of others by fillings."""
        complete = self.rows.states[self.rows.is_complete]
        score = now.log_score(complete).double().cpu()
        known = RowEstimate(score, torch.zeros_like(score), torch.zeros_like(score))
        incomplete = self.rows.states[~self.rows.is_complete]
        if not len(incomplete):
            return known, None
        parts: list[RowEstimate] = []
        for some in torch.split(incomplete, _ROWS_AT_ONCE):
            filled = self.gradient.fillings(some, _MOST_FILLINGS if is_last else _FILLINGS)
            if filled is None:
                return known, None
            parts.append(filled.estimate().cpu())
        estimated, judged = RowEstimate.joined(parts), None
        if is_last:
            judged = judge_rows(
                on_cpu(now), incomplete.cpu(), estimated, self.generator, _time_left()
            )
        return RowEstimate.joined((known, estimated)), judged

    def _exact(self, now: FactorGraph) -> Float64[Tensor, "row"]:
        states = self.rows.states.cpu()
        nothing = torch.full((1, now.num_variables), MISSING, dtype=torch.long, device="cpu")
        is_complete = self.rows.is_complete.cpu()
        asked = torch.cat((nothing, states[~is_complete]))
        engine = RowInference(now, elimination=self._elimination)
        self._elimination = engine.elimination
        found = engine.answer(asked).log_partition
        log_likelihoods = torch.zeros(len(states), dtype=torch.float64, device="cpu")
        log_likelihoods[is_complete] = now.log_score(states[is_complete])
        log_likelihoods[~is_complete] = found[1:]
        return log_likelihoods - found[0]

    def _estimated(
        self, now: FactorGraph, *, is_last: bool
    ) -> tuple[WeightedSamples | None, Verdict]:
        """Weighted samples for log Z, and what is to be thought of them."""
        drawn = self.gradient.weighted_samples(_SAMPLES)
        if drawn is not None and not is_last:
            return drawn, verdict(judge_samples(drawn, drawn))
        opinion = second_opinion(now, {}, self.generator, budget=_time_left())
        if drawn is None:
            doubts = () if opinion is None else judge_samples(opinion, opinion)
            return opinion, verdict(doubts) if opinion is not None else UNJUDGED
        doubts = judge_samples(drawn, drawn)
        if opinion is None:
            return drawn, verdict(doubts)
        more = judge_partition(drawn, opinion)
        return drawn, verdict(doubts, more, visible_share=opinion.visible_share)

    def _is_affordable(self) -> bool:
        try:
            engine = RowInference(on_cpu(self._target.now(torch.float64)))
        except MemoryLimitError:
            return False
        self._elimination = engine.elimination
        num_tables = 1 + int((~self.rows.is_complete).sum())
        return bool(engine.cost.total_entries * num_tables <= MOST_ENTRIES)


def _both(one: Verdict, other: Verdict) -> Verdict:
    """What is to be thought of a difference of two estimates."""
    shares = [found.visible_share for found in (one, other) if found.visible_share is not None]
    return verdict(
        one.doubts, other.doubts, visible_share=max(shares) if len(shares) == 2 else None
    )


def _time_left() -> Budget:
    """What judging may use: the time that whoever called has left."""
    left = seconds_left()
    return Budget.of(None, max(left, _LEAST_SECONDS) if left < math.inf else None)
