"""How far an estimated likelihood of incomplete rows can be trusted.

The weights of fillings tell of their own unevenness, and of nothing that q never draws. So the
estimates of some rows are held against second opinions on the same log Z(row), which owe nothing to
q (:func:`deltaai.trust.second_opinion`). What a row shows leaves a narrow model mostly, of which
messages know everything.
"""

from __future__ import annotations

import math
from contextlib import suppress

import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import NotAffordableError
from deltaai.learning.likelihood.fillings import RowEstimate
from deltaai.models import FactorGraph
from deltaai.trust import Verdict, second_opinion, verdict

NUM_JUDGED = 4  # rows
_FARTHEST = 4.5  # standard errors
_NEAR_ENOUGH = 0.02  # nats: a row this near is not worth an alarm
_MOST_UNEVEN = 0.05  # nats a row that are added for the logarithm of a mean
_JUDGING_SHARE = 0.25  # of the time that is left, for each row


def judge_rows(
    model: FactorGraph,
    rows: Int[Tensor, "row var"],
    estimate: RowEstimate,
    generator: torch.Generator,
    budget: Budget | None = None,
) -> Verdict:
    """Judge estimates of log Z of rows: by their weights, and some by second opinions.

    Parameters
    ----------
    model : the target, in double precision.
    rows : -1 where a cell is missing.
    estimate : log Z of each.
    budget : what it may use; without time for an opinion there is none.
    """
    doubts: list[str] = []
    added = float(estimate.correction.mean()) if len(rows) else 0.0
    if not added <= _MOST_UNEVEN:
        doubts.append(
            f"weights of missing cells are uneven, so that {added:.2g} nats a row had to be "
            "guessed: learn longer, or from rows with fewer missing cells"
        )
    budget = Budget.of() if budget is None else budget
    seen: list[float] = []
    order = torch.randperm(len(rows), generator=generator, dtype=torch.long, device="cpu")
    for number in order[:NUM_JUDGED].tolist():
        row, opinion = rows[number], None
        shown = (row >= 0).nonzero().squeeze(1).tolist()
        observed = {v: int(row[v]) for v in shown}
        within = budget.part(_JUDGING_SHARE)
        with suppress(NotAffordableError), within.watched("the second opinion"):
            opinion = second_opinion(model, observed, generator, budget=within)
        if opinion is None:
            continue
        seen.append(opinion.visible_share)
        other = opinion.estimate
        found, added = float(estimate.log_partition[number]), float(estimate.correction[number])
        error = math.sqrt(float(estimate.variance[number]))
        above = other.log_partition - found
        if above > _FARTHEST * math.hypot(error, other.stderr) + added + _NEAR_ENOUGH:
            doubts.append(
                f"log Z of a row is estimated as {found:.6g} ± {error:.2g}, but {opinion.method} "
                f"find {other.log_partition:.6g}: fillings miss a part; learn longer"
            )
            break
    return verdict(tuple(doubts), visible_share=max(seen) if seen else None)
