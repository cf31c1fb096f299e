"""The variance of the log weights: a global objective to polish what local ones have trained.

    L = Var_x [log p~(x) - log q(x)],   x ~ q

It is trajectory balance with log Z at its best value for the batch. The local objective makes q
right between states that are a few flips apart; between modes far apart its small errors add up
along the way. This one sees the sum. It needs full samples and one conditional a variable, no
flips.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Known, Proposal, log_conditionals_of
from deltaai.objectives.base import Objective, Paths


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Full states and what follows from them whatever the networks.

    Parameters
    ----------
    columns : the states.
    known : which inputs each variable may see.
    features : the states, encoded.
    factor_logits : log-factors inside the known, as logits.
    log_score : log p~ of each state, less the mean over the batch.
    """

    columns: Int[Tensor, "var batch"]
    known: Known
    features: Float[Tensor, "feature_row batch"]
    factor_logits: Float[Tensor, "row batch"]
    log_score: Float[Tensor, "batch"]


def prepare_paths(
    proposal: Proposal,
    columns: Int[Tensor, "var batch"],
    log_score: Float[Tensor, "batch"],
    known: Known = None,
    beta: float | int = 1.0,
) -> PathBatch:
    """Compute what the states fix; ``log_score`` comes in double precision, being large."""
    centred = (log_score - log_score.mean()).to(proposal.model.dtype)
    features = proposal.layout.encoding.encode(columns, proposal.model.dtype)
    factor_logits = proposal.factor_logits(columns, known, beta)
    return PathBatch(columns, known, features, factor_logits, centred)


def log_variance_losses(proposal: Proposal, batch: PathBatch) -> Float[Tensor, "batch"]:
    """Squared distance of each log weight from the mean of the batch."""
    logits = proposal.conditionals.logits(batch.features, batch.known) + batch.factor_logits
    log_q = log_conditionals_of(proposal.layout, logits, batch.columns).sum(0)
    log_weights = batch.log_score - log_q
    return (log_weights - log_weights.mean()).square()


class LogVarianceObjective(Objective[PathBatch]):
    """The variance of the log weights."""

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self.scorer = proposal.scorer()

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> PathBatch:
        """Compute what the states fix."""
        with torch.no_grad():
            log_score = paths.beta * self.scorer.log_score(paths.columns.T)
        return prepare_paths(proposal, paths.columns, log_score, paths.known, paths.beta)

    def losses(self, proposal: Proposal, batch: PathBatch) -> Float[Tensor, "batch"]:
        """Squared distance of each log weight from the mean of the batch."""
        return log_variance_losses(proposal, batch)
