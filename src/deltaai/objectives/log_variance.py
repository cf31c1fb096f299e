"""The variance of the log weights: a global objective to polish what local ones have trained.

    L = Var_x [log p~(x) - log q(x)],   x ~ q

It is trajectory balance with log Z at its best value for the batch. The local objective makes q
right between states that are a few flips apart; between modes far apart its small errors add up
along the way. This one sees the sum. It needs full samples and one conditional a variable, no
flips. Log weights given different evidence differ by the evidence's own log Z, so with evidence the
variance is taken among columns that share theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals import Known, Observed, Proposal, log_conditionals_of
from deltaai.models import Columns
from deltaai.objectives.base import Objective
from deltaai.sampling import Paths


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Full states and what follows from them whatever the networks.

    Parameters
    ----------
    columns : the states.
    known : which inputs each variable may see.
    features : the states, encoded.
    known_logits : what q knows before training.
    log_score : log p~ of each state, less the mean over its group.
    observed : which variables are evidence.
    group_size : how many columns in a row are compared with each other.
    context : what else is given with each column.
    """

    columns: Columns
    known: Known
    features: Float[Tensor, "feature_row batch"]
    known_logits: Float[Tensor, "row batch"]
    log_score: Float[Tensor, "batch"]
    observed: Observed | None
    group_size: int
    context: Float[Tensor, "batch *feature"] | None = None


def log_variance_losses(proposal: Proposal, batch: PathBatch) -> Float[Tensor, "batch"]:
    """Squared distance of each log weight from the mean of its group."""
    context = proposal.context_of(batch.context)
    logits = proposal.conditionals.logits(batch.features, batch.known, context)
    log_q = log_conditionals_of(proposal.layout, logits + batch.known_logits, batch.columns)
    if batch.observed is not None:
        log_q = log_q * ~batch.observed
    return _centred(batch.log_score - log_q.sum(0), batch.group_size).square()


class LogVarianceObjective(Objective[PathBatch]):
    """The variance of the log weights."""

    each_evidence = 8

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> PathBatch:
        """Compute what the states fix; scores come in double precision, being large."""
        size = paths.each_evidence if paths.observed is not None else paths.columns.shape[1]
        with torch.no_grad():
            log_score = _centred(proposal.target.log_scores(paths.columns, paths.context), size)
        return PathBatch(
            paths.columns,
            paths.known,
            proposal.features(paths.columns),
            proposal.known_logits(paths.columns, paths.known),
            log_score.to(proposal.dtype),
            paths.observed,
            size,
            paths.context,
        )

    def losses(self, proposal: Proposal, batch: PathBatch) -> Float[Tensor, "batch"]:
        """Squared distance of each log weight from the mean of its group."""
        return log_variance_losses(proposal, batch)


def _centred(values: Float[Tensor, "batch"], size: int) -> Float[Tensor, "batch"]:
    """Values less the mean of their group."""
    groups = values.view(math.ceil(len(values) / size), size)
    return (groups - groups.mean(1, keepdim=True)).flatten()
